#!/usr/bin/env bats
# The mock LLM as a program, driven by curl: its command line, the API that agents see, the control API, and
# whole sessions with their mistakes. docs/protocols.md and docs/mock.md are what must hold.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  build=${BUILD:-build}
  case $build in /*) ;; *) build=$PWD/$build ;; esac
  mockllm=$build/prefix/bin/mockllm
  tmtool=$build/prefix/bin/tmtool
  control=$BATS_TEST_TMPDIR/control.sock
  mock_pid=
}

teardown() {
  if [ -n "$mock_pid" ]; then
    kill "$mock_pid" 2>/dev/null || true
    wait "$mock_pid" 2>/dev/null || true
  fi
}

# ---- starting and asking

start_mock() {
  "$mockllm" --port 0 --control "$control" --tool "$tmtool" --scenarios configs/scenarios \
    >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  mock_pid=$!
  wait_for_port
}

wait_for_port() {
  local tries
  for ((tries = 0; tries < 500; tries++)); do
    [ -s "$BATS_TEST_TMPDIR/out" ] && break
    kill -0 "$mock_pid" 2>/dev/null || break
    sleep 0.01
  done
  port=$(jq -r .port "$BATS_TEST_TMPDIR/out")
  base=http://127.0.0.1:$port
  [ -n "$port" ]
}

stop_mock() {
  kill -"${1:-TERM}" "$mock_pid"
  local status=0
  wait "$mock_pid" || status=$?
  mock_pid=
  return "$status"
}

# control METHOD PATH [BODY]: the answer's body; fails on a status of 400 or more
control() {
  curl -sS --fail-with-body --unix-socket "$control" -X "$1" ${3:+--data "$3"} "http://mock$2"
}

begin() { # SCENARIO SESSIONS [SEED]
  control POST /control/run "{\"scenario\":\"$1\",\"sessions\":$2,\"seed\":${3:-1}}" >"$BATS_TEST_TMPDIR/run"
  jq -j .system_prompt "$BATS_TEST_TMPDIR/run" >"$BATS_TEST_TMPDIR/system_prompt.txt"
}

end() {
  control POST /control/run/end >"$BATS_TEST_TMPDIR/ledger"
}

# ledger FILTER: of the last run
ledger() {
  jq -c "$1" "$BATS_TEST_TMPDIR/ledger"
}

errors() {
  ledger '.error_counts | map_values(select(. > 0))'
}

chat() { # CURL-ARGUMENTS…: the body on stdin
  curl -sS --data-binary @- -H 'Content-Type: application/json' "$@" "$base/v1/chat/completions"
}

hello() { # MODEL [MEMBERS]
  printf '{"model":"%s","messages":[{"role":"user","content":"hello"}]%s}' "$1" "${2:+,$2}"
}

# ---- an agent made of jq

# The first request of session $1 in scenario $2.
first_request() {
  jq -c --arg session "s$1" --arg model "$2" '{model: $model, stream: true, messages: [
    {role: "system", content: .system_prompt},
    {role: "user", content: .task | gsub("\\{session\\}"; $session)}]}' "$BATS_TEST_TMPDIR/run"
}

# The assistant message of a stream on stdin.
assistant() {
  sed -n 's/^data: //p' | grep -v '^\[DONE\]' | jq -cs '
    [.[].choices[]?.delta] as $deltas
    | {role: "assistant", content: [$deltas[].content // ""] | add,
       tool_calls: [$deltas[].tool_calls[]?] | group_by(.index)
         | map({id: .[0].id, type: "function", function: {name: .[0].function.name,
             arguments: map(.function.arguments) | add}})}'
}

# The tool message of call $1 (JSON): runs it.
run_tool() {
  local -a argv
  if jq -e '.function.name == "exec"' <<<"$1" >/dev/null; then
    mapfile -t argv < <(jq -r '.function.arguments | fromjson | .argv[]' <<<"$1")
  else
    argv=(/bin/sh -c "$(jq -r '.function.arguments | fromjson | .command' <<<"$1")")
  fi
  local status=0
  (cd "$BATS_TEST_TMPDIR" && "${argv[@]}" 2>tool-err >tool-out) || status=$?
  (cd "$BATS_TEST_TMPDIR" && cat tool-out tool-err >tool-text)
  if [ "$status" != 0 ]; then
    if [ -s "$BATS_TEST_TMPDIR/tool-text" ] && [ -n "$(tail -c 1 "$BATS_TEST_TMPDIR/tool-text")" ]; then
      echo >>"$BATS_TEST_TMPDIR/tool-text"
    fi
    printf '[exit %d]' "$status" >>"$BATS_TEST_TMPDIR/tool-text"
  fi
  jq -c --rawfile text "$BATS_TEST_TMPDIR/tool-text" '{role: "tool", tool_call_id: .id, content: $text}' <<<"$1"
}

# $1 and the messages that its answer $2 (an assistant message) leads to.
next_request() {
  local call messages=$2
  while read -r call; do
    messages+=$'\n'$(run_tool "$call")
  done < <(jq -c '.tool_calls[]' <<<"$2")
  jq -c --slurpfile more <(echo "$messages") '.messages += $more' <<<"$1"
}

# Play session $1 of scenario $2 to its end; the requests stay in request.1, request.2, …
play_session() {
  local turn=1 request message
  request=$(first_request "$1" "$2")
  while :; do
    echo "$request" >"$BATS_TEST_TMPDIR/request.$turn"
    message=$(chat --fail-with-body -H "X-Session-Id: s$1" <"$BATS_TEST_TMPDIR/request.$turn" | assistant)
    if [ "$(jq '.tool_calls | length' <<<"$message")" = 0 ]; then
      break
    fi
    request=$(next_request "$request" "$message")
    turn=$((turn + 1))
  done
}

# ---- command line

@test "help and version" {
  run -0 --separate-stderr "$mockllm" --help
  [[ $output == usage:* ]]
  [ -z "$stderr" ]
  run -0 "$mockllm" --version
  [ "$output" = "mockllm $(cat VERSION)" ]
}

@test "bad usage is one line and exit 2" {
  local arguments
  while read -r -a arguments; do
    run -2 --separate-stderr "$mockllm" "${arguments[@]}"
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" = 1 ]
    [[ ${stderr_lines[0]} == mockllm:\ * ]]
  done <<'LIST'

--port 0
--port x --control c --tool t
--port 65536 --control c --tool t
--port 0 --control c --tool t extra
--port 0 --control c --tool t --workers 0
--port 0 --control c --tool t --nonsense
--port 1e3 --control c --tool t
--port
LIST
}

# refused TEXT ARGUMENTS…: exits 1 with one line that has TEXT
refused() {
  local text=$1
  shift
  run -1 --separate-stderr timeout 5 "$mockllm" "$@"
  [ -z "$output" ]
  [ "${#stderr_lines[@]}" = 1 ]
  [[ ${stderr_lines[0]} == *"$text"* ]] || {
    echo "said: $stderr"
    return 1
  }
}

@test "a taken port, a missing tool and bad scenarios are told" {
  start_mock
  refused "choose another port" --port "$port" --control "$control.2" --tool "$tmtool"
  refused "build it with make" --port 0 --control "$control.2" --tool "$BATS_TEST_TMPDIR/none"
  refused "it is no program" --port 0 --control "$control.2" --tool "$BATS_TEST_TMPDIR"
  refused "--control: must be a path, is empty" --port 0 --control= --tool "$tmtool"
  refused "scenarios directory" --port 0 --control "$control.2" --tool "$tmtool" --scenarios "$BATS_TEST_TMPDIR/none"
  refused "cannot listen on '/nonexistent" --port 0 --control /nonexistent/c.sock --tool "$tmtool"
  mkdir "$BATS_TEST_TMPDIR/scenarios"
  jq '.turns = 0' configs/scenarios/one.json >"$BATS_TEST_TMPDIR/scenarios/one.json"
  refused "one.json: turns: must be an integer of 1 to 10000, is 0" \
    --port 0 --control "$control.2" --tool "$tmtool" --scenarios "$BATS_TEST_TMPDIR/scenarios"
  [ ! -e "$control.2" ]
}

@test "a socket in use is refused, a stale one replaced, a file left alone" {
  start_mock
  refused "another program does" --port 0 --control "$control" --tool "$tmtool"
  control GET /healthz
  kill -KILL "$mock_pid"
  wait "$mock_pid" || true
  [ -S "$control" ]
  start_mock
  control GET /healthz
  stop_mock
  echo precious >"$control"
  refused "is no socket" --port 0 --control "$control" --tool "$tmtool"
  [ "$(cat "$control")" = precious ]
}

@test "SIGTERM and SIGINT end it cleanly" {
  local signal
  for signal in TERM INT; do
    start_mock
    hello steady '"stream":true' | chat -N -o /dev/null &
    local client=$!
    stop_mock "$signal"
    [ ! -e "$control" ]
    wait "$client" || true
  done
}

# ---- what agents see

@test "health and models" {
  start_mock
  [ "$(curl -sS "$base/healthz" | jq -c '[.status, .port]')" = "[\"ok\",$port]" ]
  [ "$(control GET /healthz | jq -r .pid)" = "$mock_pid" ]
  curl -sS "$base/v1/models" | jq -e '.object == "list" and (.data | map(.id) | contains(["quick", "smoke", "steady"]))'
  [ "$(curl -sS "$base/v1/models/quick" | jq -c '[.id, .object]')" = '["quick","model"]' ]
  local answer
  answer=$(curl -sS -w '%{http_code}' "$base/v1/models/none")
  [[ $answer == *'"code":"model_not_found"'*404 ]]
  answer=$(curl -sS -w '%{http_code}' "$base/nowhere")
  [[ $answer == *'"code":"unknown_url"'*404 ]]
  answer=$(curl -sS -w '%{http_code}' "$base/v1/chat/completions")
  [[ $answer == *'"type":"invalid_request_error"'*405 ]]
  answer=$(curl -sS -w '%{http_code}' "$base/control/counters")
  [[ $answer == *404 ]]
}

@test "IPv6 loopback, where there is one" {
  [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 || skip "no ::1 here"
  start_mock
  curl -sS -g "http://[::1]:$port/healthz" | jq -e '.status == "ok"'
}

@test "free play streams" {
  start_mock
  hello one '"stream":true,"stream_options":{"include_usage":true}' | chat -i | tr -d '\r' >"$BATS_TEST_TMPDIR/answer"
  grep -qx 'HTTP/1.1 200 OK' "$BATS_TEST_TMPDIR/answer"
  grep -qix 'content-type: text/event-stream; charset=utf-8' "$BATS_TEST_TMPDIR/answer"
  grep -qix 'cache-control: no-cache' "$BATS_TEST_TMPDIR/answer"
  grep -qix 'x-accel-buffering: no' "$BATS_TEST_TMPDIR/answer"
  grep -qix 'transfer-encoding: chunked' "$BATS_TEST_TMPDIR/answer"
  sed -n 's/^data: //p' "$BATS_TEST_TMPDIR/answer" >"$BATS_TEST_TMPDIR/events"
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/events")" = '[DONE]' ]
  sed '$d' "$BATS_TEST_TMPDIR/events" | jq -se '
    .[0].choices[0].delta.role == "assistant"
    and (map(.object) | unique) == ["chat.completion.chunk"]
    and (map(.created | type) | unique) == ["number"]
    and .[-2].choices[0] == {index: 0, delta: {}, finish_reason: "stop"}
    and .[-1].choices == [] and .[-1].usage.total_tokens > 0'
  hello one '"stream":true' | chat | grep -c usage | grep -qx 0
}

@test "free play goes through the turns of a scenario" {
  start_mock
  local answer
  answer=$(hello smoke | chat)
  jq -e '.object == "chat.completion" and .choices[0].finish_reason == "tool_calls"
    and .choices[0].message.tool_calls[0].function.name == "exec" and .usage.prompt_tokens > 0' <<<"$answer"
  jq -c '{model: "smoke", messages: [{role: "user", content: "x"}, .choices[0].message, {role: "tool"}, .choices[0].message]}' \
    <<<"$answer" | chat | jq -e '.choices[0].finish_reason == "stop" and (.choices[0].message | has("tool_calls") | not)'
  hello nothing | chat -w '%{http_code}' | grep -q '"code":"model_not_found".*404$'
  echo nonsense | chat -w '%{http_code}' | grep -q '"code":"malformed".*400$'
}

@test "large and odd bodies" {
  start_mock
  jq -nc '{model: "one", stream: true, messages: [{role: "user", content: ("x" * 3000000)}]}' >"$BATS_TEST_TMPDIR/body"
  # curl asks for "100 Continue" by itself and waits a second for it
  chat -v -D "$BATS_TEST_TMPDIR/headers" <"$BATS_TEST_TMPDIR/body" 2>"$BATS_TEST_TMPDIR/trace" | grep -qx 'data: \[DONE\]'
  grep -q '^< HTTP/1.1 100 Continue' "$BATS_TEST_TMPDIR/trace"
  run ! grep -q 'Done waiting for 100-continue' "$BATS_TEST_TMPDIR/trace"
  chat -H 'Expect:' <"$BATS_TEST_TMPDIR/body" | grep -qx 'data: \[DONE\]'
  chat -H 'Expect:' -H 'Transfer-Encoding: chunked' <"$BATS_TEST_TMPDIR/body" | grep -qx 'data: \[DONE\]'
  hello one '"stream":true' | chat -H 'Transfer-Encoding: chunked' | grep -qx 'data: \[DONE\]'
  hello one '"stream":true' | chat -H 'Connection: close' -i | tr -d '\r' >"$BATS_TEST_TMPDIR/answer"
  grep -qix 'connection: close' "$BATS_TEST_TMPDIR/answer"
  hello one '"stream":true' | chat -0 -w '%{http_code}' | grep -q 'HTTP/1.1.*400$'
}

@test "a body above 64 MiB is refused" {
  start_mock
  head -c $((64 * 1024 * 1024 + 1)) /dev/zero >"$BATS_TEST_TMPDIR/body"
  local extra
  for extra in 'Expect: 100-continue' 'Expect:' 'Transfer-Encoding: chunked'; do
    chat -H "$extra" -w '%{http_code}' <"$BATS_TEST_TMPDIR/body" | grep -q '"code":"body_too_large".*413$'
  done
  # none of it stayed
  [ "$(awk '/VmRSS/ {print $2}' "/proc/$mock_pid/status")" -lt 200000 ]
  curl -sS "$base/healthz" | jq -e '.status == "ok"'
}

@test "a connection serves one request after the other" {
  start_mock
  hello one '"stream":true' >"$BATS_TEST_TMPDIR/body"
  local url=$base/v1/chat/completions
  curl -sS -w '%{num_connects}\n' -o /dev/null --data-binary "@$BATS_TEST_TMPDIR/body" "$url" --next \
    -sS -w '%{num_connects}\n' -o /dev/null --data-binary "@$BATS_TEST_TMPDIR/body" "$url" --next \
    -sS -w '%{num_connects}\n' -o /dev/null --data-binary "nonsense" "$url" --next \
    -sS -w '%{num_connects}\n' -o /dev/null "$base/healthz" --next \
    -sS -w '%{num_connects}\n' -o /dev/null --data-binary "@$BATS_TEST_TMPDIR/body" "$url" >"$BATS_TEST_TMPDIR/connects"
  [ "$(paste -sd ' ' "$BATS_TEST_TMPDIR/connects")" = "1 0 0 0 0" ]
}

# ---- control

@test "scenarios are loaded, refused and protected" {
  start_mock
  local file=configs/scenarios/quick.json
  control POST /control/scenario "$(jq '.name = "mine" | .turns = 2' $file)" >"$BATS_TEST_TMPDIR/answer"
  jq -e '.name == "mine" and .turns == 2 and .system_prompt_bytes == 8192 and (.sha256 | length) == 64' "$BATS_TEST_TMPDIR/answer"
  curl -sS "$base/v1/models/mine" | jq -e '.id == "mine"'
  run ! control POST /control/scenario "$(jq '.chunks = 0' $file)"
  [[ $output == *'{"error":{"message":"scenario: chunks: must be an integer of 1 to 100000, is 0"}}'* ]]
  run ! control POST /control/scenario 'nonsense'
  [[ $output == *'not valid JSON'* ]]
  begin mine 1
  run ! control POST /control/scenario "$(jq '.name = "mine"' $file)"
  [[ $output == *409*'a run of this scenario is on'* ]]
  control POST /control/scenario "$(cat $file)"
  end
  control POST /control/scenario "$(jq '.name = "mine"' $file)" | jq -e '.turns == 6'
}

@test "runs begin and end one at a time" {
  start_mock
  run ! control GET /control/run
  [[ $output == *404*'no run is on'* ]]
  run ! control POST /control/run/end
  run ! control POST /control/run '{"scenario":"none","sessions":1,"seed":1}'
  [[ $output == *404* ]]
  run ! control POST /control/run '{"scenario":"smoke","sessions":0,"seed":1}'
  [[ $output == *'run: sessions: must be an integer of 1 to 10000, is 0'* ]]
  run ! control POST /control/run '{"scenario":"smoke","sessions":1,"seed":-1}'
  [[ $output == *'run: seed: must be an integer of 0 to 9223372036854775807, is -1'* ]]
  run ! control POST /control/nothing
  begin smoke 2 9223372036854775807
  jq -e '.run == 1 and (.system_prompt | utf8bytelength) == 2048 and (.task | contains("{session}")) and .begun_ns > 0' "$BATS_TEST_TMPDIR/run"
  run ! control POST /control/run '{"scenario":"smoke","sessions":1,"seed":1}'
  [[ $output == *409*'a run is on'* ]]
  control GET /control/run | jq -e '. == {run: 1, sessions_seen: 0, sessions_complete: 0, requests: 0, errors: 0, open_streams: 0}'
  end
  [ "$(ledger '[.run, .scenario, .sessions, .rows, .late_self_us.p99]')" = '[1,"smoke",2,[],null]' ]
  # jq would round it
  grep -q '"seed":9223372036854775807,' "$BATS_TEST_TMPDIR/ledger"
  begin smoke 1
  jq -e '.run == 2' "$BATS_TEST_TMPDIR/run"
  end
  control GET /control/counters | jq -e '.runs == 2'
}

# ---- whole sessions

@test "a right session has no error and a full ledger" {
  start_mock
  local scenario
  for scenario in smoke steady-bin; do
    jq '.ttft_ms = {constant: 5} | .chunk_interval_ms = {constant: 1} | .spread_first_ms = 0 | .chunks = 12 | .turns = 4' \
      configs/scenarios/$scenario.json >"$BATS_TEST_TMPDIR/fast.json"
    control POST /control/scenario "$(cat "$BATS_TEST_TMPDIR/fast.json")"
    begin "$scenario" 2 7
    play_session 1 "$scenario"
    play_session 2 "$scenario"
    control GET /control/run | jq -e '. == {run: .run, sessions_seen: 2, sessions_complete: 2, requests: 8, errors: 0, open_streams: 0}'
    end
    [ "$(errors)" = '{}' ]
    [ "$(ledger '[.sessions_complete, .requests, .connections, .events, .tool_stamps_unmatched, .peers_left]')" = '[2,8,8,96,0,0]' ]
    ledger '. as $l | [.rows[] | [$l.columns, .] | transpose | map({(.[0]): .[1]}) | add]' >"$BATS_TEST_TMPDIR/rows"
    jq -e 'length == 8 and all(.[]; .attempt == 1 and .headers_ns <= .read_ns and .read_ns < .first_ns
      and .first_ns < .end_before_ns and .end_before_ns <= .end_after_ns and .late_self_us >= 0
      and .late_peer_us == 0 and .bytes_in > 2000 and .bytes_out > 2000)' "$BATS_TEST_TMPDIR/rows"
    jq -e 'map([.session, .turn]) | sort == [range(1; 3) as $s | range(1; 5) as $t | [$s, $t]]' "$BATS_TEST_TMPDIR/rows"
  done
  # of steady-bin
  jq -e 'all(.[]; .tool_demand_ns == null)' "$BATS_TEST_TMPDIR/rows"
}

@test "a scenario without any time: all of a turn is due at once" {
  start_mock
  control POST /control/scenario "$(jq '.ttft_ms = {constant: 0} | .chunk_interval_ms = {constant: 0} | .spread_first_ms = 0
    | .chunks = 1 | .tools.calls = {min: 5, max: 5} | .tools.sleep_ms = {min: 0, max: 0}' configs/scenarios/smoke.json)"
  begin smoke 1 2
  play_session 1 smoke
  end
  [ "$(errors)" = '{}' ]
  # whoever was first, the worker or the main thread that cannot wait for it
  [ "$(ledger '[.sessions_complete, .requests, .events, .checks_scanned + .checks_inline, .tool_calls, .tool_stamps]')" = '[1,3,3,3,10,10]' ]
}

@test "stamps of the suite's tool make its demand" {
  start_mock
  begin smoke 1 3
  play_session 1 smoke
  end
  [ "$(ledger '[.tool_calls == .tool_stamps, .tool_stamps_unmatched]')" = '[true,0]' ]
  ledger '.rows | map(.[11:14])' >"$BATS_TEST_TMPDIR/tools"
  jq -e '(.[:-1] | all(.[]; .[0] > 0 and .[1] >= 1000000 and .[2] >= 1000000)) and .[-1] == [0, null, null]' "$BATS_TEST_TMPDIR/tools"
}

@test "what a tool costs before its first instruction is no demand" {
  start_mock
  control POST /control/scenario "$(jq '.tools.calls = {min: 1, max: 1} | .tools.sleep_ms = {min: 0, max: 0}' configs/scenarios/smoke.json)"
  begin smoke 1 3
  local -a argv
  mapfile -t argv < <(first_request 1 smoke | chat -H 'X-Session-Id: s1' | assistant |
    jq -r '.tool_calls[0].function.arguments | fromjson | .argv[]')
  # the process that becomes the tool has half a second of CPU time by then, as the forked child of a large parent has some
  bash -c 'until times >"$0" && read -r user _ <"$0" && [[ $user != 0m0.[0-4]* ]]; do
      for ((i = 0; i < 20000; i++)); do :; done
    done
    exec "$@"' "$BATS_TEST_TMPDIR/times" "${argv[@]}" >/dev/null
  local tries
  for ((tries = 0; tries < 500; tries++)); do
    control GET /control/counters | jq -e '.tool_stamps == 1' >/dev/null && break
    sleep 0.01
  done
  end
  [ "$(ledger .tool_stamps)" = 1 ]
  ledger '.rows[0][12]' | jq -e '. >= 0 and . < 100000000'
}

@test "the same seed has the same bytes, another has others" {
  start_mock
  local which
  for which in 5:first 5:second 6:other; do
    begin smoke 3 "${which%:*}"
    first_request 2 smoke | chat -H 'X-Session-Id: s2' >"$BATS_TEST_TMPDIR/${which#*:}"
    end
  done
  cmp "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/second"
  run ! cmp -s "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/other"
}

# wrong KIND JQ-FILTER [HEADER]: the second request of session 1, changed, is refused as KIND
wrong() {
  local kind=$1 filter=$2 header=${3-X-Session-Id: s1}
  begin smoke 2 4
  local request message
  request=$(first_request 1 smoke)
  message=$(chat -H 'X-Session-Id: s1' <<<"$request" | assistant)
  next_request "$request" "$message" | jq -c "$filter" |
    chat -w '\n%{http_code}' -H "$header" >"$BATS_TEST_TMPDIR/answer"
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/answer")" = 400 ]
  head -n 1 "$BATS_TEST_TMPDIR/answer" |
    jq -e --arg kind "$kind" '.error | .type == "invalid_request_error" and .code == $kind and (.message | length) > 0'
  end
  [ "$(errors)" = "{\"$kind\":1}" ]
  ledger '.errors[0]' | jq -e --arg kind "$kind" '.kind == $kind and (.detail | length) > 0 and .at_ns > 0'
}

@test "wrong requests are refused by their kind" {
  start_mock
  wrong history '.messages |= .[1:]'
  wrong history '.messages[2].content = "other"'
  wrong history '.messages[2].tool_calls[0].id = "call_0"'
  wrong history '.messages |= .[:-1]'
  wrong tool_output '.messages[3].content = "other"'
  wrong tool_output '.messages[3].content += "\n[exit 1]"'
  wrong repeat '.messages |= .[:2]'
  wrong malformed '.model = "quick"'
  wrong malformed 'del(.messages)'
  wrong session . 'X-Session-Id:'
  wrong session . 'X-Session-Id: s3'
  wrong session . 'X-Session-Id: session-1'
}

@test "another session's history is wrong" {
  start_mock
  begin smoke 2 4
  first_request 1 smoke | chat -H 'X-Session-Id: s2' | jq -e '.error.code == "history"'
  end
  [ "$(errors)" = '{"history":1}' ]
}

@test "a method that is none is malformed" {
  start_mock
  begin smoke 1
  curl -sS -H 'X-Session-Id: s1' "$base/v1/chat/completions"
  echo nonsense | chat -H 'X-Session-Id: s1'
  end
  [ "$(errors)" = '{"malformed":2}' ]
  [ "$(ledger '[.errors[].session]')" = '[1,1]' ]
}

@test "the user member names the session where the header cannot" {
  start_mock
  begin smoke 2
  first_request 2 smoke | jq -c '.user = "s2"' | chat --fail | grep -qx 'data: \[DONE\]'
  first_request 2 smoke | jq -c '.user = "s9"' | chat | jq -e '.error.code == "session"'
  end
  [ "$(ledger '[.rows[] | .[0:3]]')" = '[[2,1,1]]' ]
}

@test "after its end a session has nothing to ask" {
  start_mock
  begin smoke 1
  play_session 1 smoke
  chat -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/request.3" | jq -e '.error.code == "after_end"'
  chat -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/request.1" | jq -e '.error.code == "after_end"'
  end
  [ "$(errors)" = '{"after_end":2}' ]
  [ "$(ledger .sessions_complete)" = 1 ]
}

# A smoke whose streams last until they are cut.
slow_scenario() {
  control POST /control/scenario "$(jq '.name = "slow" | .ttft_ms = {constant: 10} | .chunk_interval_ms = {constant: 10000}' configs/scenarios/smoke.json)"
}

wait_for() { # FILTER: of GET /control/run
  local tries
  for ((tries = 0; tries < 1000; tries++)); do
    control GET /control/run | jq -e "$1" >/dev/null && return
    sleep 0.01
  done
  return 1
}

@test "two requests of a session at once overlap" {
  start_mock
  slow_scenario
  begin slow 1
  first_request 1 slow >"$BATS_TEST_TMPDIR/body"
  chat -N -o "$BATS_TEST_TMPDIR/stream" -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/body" 2>/dev/null 3>&- &
  local client=$!
  wait_for '.open_streams == 1'
  chat -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/body" | jq -e '.error.code == "overlap"'
  end
  local status=0
  wait "$client" || status=$?
  [ "$status" = 18 ]
  [ "$(errors)" = '{"overlap":1}' ]
  # the first went on until the run's end cut it
  [ "$(ledger '[.rows[] | [.[2], .[6] != null, .[7], .[8]]]')" = '[[1,true,null,null]]' ]
}

@test "a peer that leaves is noticed, and its next attempt is no error" {
  start_mock
  slow_scenario
  begin slow 1
  first_request 1 slow >"$BATS_TEST_TMPDIR/body"
  run -28 chat -N --max-time 0.3 -o /dev/null -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/body"
  wait_for '.open_streams == 0'
  run -28 chat -N --max-time 0.3 -o /dev/null -H 'X-Session-Id: s1' <"$BATS_TEST_TMPDIR/body"
  wait_for '.open_streams == 0'
  end
  [ "$(errors)" = '{}' ]
  [ "$(ledger .peers_left)" = 2 ]
  [ "$(ledger '[.rows[] | .[0:3]]')" = '[[1,1,1],[1,1,2]]' ]
  control GET /control/counters | jq -e '.peers_left == 2'
}

@test "a run begins without what agents had begun before" {
  start_mock
  local head=$'POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nContent-Length: 99\r\n' in_head in_body
  exec {in_head}<>"/dev/tcp/127.0.0.1/${base##*:}" {in_body}<>"/dev/tcp/127.0.0.1/${base##*:}"
  printf '%s' "$head" >&"$in_head"
  printf '%s\r\n{' "$head" >&"$in_body"
  control GET /control/counters | jq -e '.connections >= 2'
  begin smoke 1
  # both end
  timeout 20 cat <&"$in_head" || [ $? -ne 124 ]
  timeout 20 cat <&"$in_body" || [ $? -ne 124 ]
  end
  exec {in_head}>&- {in_body}>&-
}

@test "a tool started before the finish chunk is early" {
  start_mock
  # the same seed asks for the same calls: learn them first
  begin smoke 1 4
  first_request 1 smoke | chat -H 'X-Session-Id: s1' | assistant >"$BATS_TEST_TMPDIR/message"
  end
  slow_scenario
  control POST /control/scenario "$(jq '.ttft_ms = {constant: 10} | .chunk_interval_ms = {constant: 10000}' configs/scenarios/smoke.json)"
  begin smoke 1 4
  first_request 1 smoke | chat -N -o /dev/null -H 'X-Session-Id: s1' 2>/dev/null 3>&- &
  wait_for '.open_streams == 1'
  run_tool "$(jq -c '.tool_calls[0]' "$BATS_TEST_TMPDIR/message")"
  end
  [ "$(errors)" = '{"early_tool":1}' ]
  [ "$(ledger '[.errors[0].session, .errors[0].turn]')" = '[1,1]' ]
}

@test "hundreds of connections at once" {
  start_mock
  hello smoke '"stream":true' >"$BATS_TEST_TMPDIR/body"
  # curl opens one connection for each of these
  local i
  for ((i = 0; i < 300; i++)); do
    printf 'url=%s/v1/chat/completions\noutput=/dev/null\n' "$base"
  done >"$BATS_TEST_TMPDIR/urls"
  curl -sS -Z --parallel-immediate --parallel-max 300 --data-binary "@$BATS_TEST_TMPDIR/body" -K "$BATS_TEST_TMPDIR/urls" \
    -w '%{http_code}\n' | sort | uniq -c | grep -qx ' *300 200'
}

@test "few descriptors: connections wait their turn" {
  (
    ulimit -n 64
    exec "$mockllm" --port 0 --control "$control" --tool "$tmtool" --scenarios configs/scenarios
  ) >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  mock_pid=$!
  wait_for_port
  hello one '"stream":true' >"$BATS_TEST_TMPDIR/body"
  local i
  for ((i = 0; i < 100; i++)); do
    printf 'url=%s/v1/chat/completions\noutput=/dev/null\n' "$base"
  done >"$BATS_TEST_TMPDIR/urls"
  curl -sS -Z --parallel-immediate --parallel-max 100 --data-binary "@$BATS_TEST_TMPDIR/body" -K "$BATS_TEST_TMPDIR/urls" \
    -H 'Connection: close' --max-time 60 -w '%{http_code}\n' | sort | uniq -c | grep -qx ' *100 200'
}

# ---- the suite's tool

@test "tmtool prints what its key says and needs nobody to hear its stamp" {
  run -0 "$tmtool" nobody 0123456789abcdef 0 0
  [ -z "$output" ]
  "$tmtool" nobody 0123456789abcdef 0 5000 >"$BATS_TEST_TMPDIR/a"
  "$tmtool" nobody 0123456789abcdef 20 5000 >"$BATS_TEST_TMPDIR/b"
  "$tmtool" nobody 0123456789abcdee 0 5000 >"$BATS_TEST_TMPDIR/c"
  [ "$(wc -c <"$BATS_TEST_TMPDIR/a")" = 5000 ]
  cmp "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
  run ! cmp -s "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/c"
}

@test "tmtool refuses nonsense" {
  local arguments
  while read -r -a arguments; do
    run -2 --separate-stderr "$tmtool" "${arguments[@]}"
    [ -z "$output" ]
    [[ $stderr == "usage: tmtool "* ]]
  done <<'LIST'

s 0123456789abcdef 0
s 0123456789abcde 0 0
s 0123456789ABCDEF 0 0
s 0123456789abcdef -1 0
s 0123456789abcdef 3600001 0
s 0123456789abcdef 0 1048577
s 0123456789abcdef 0 x
s 0123456789abcdef 0 0 0
LIST
}
