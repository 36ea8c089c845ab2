//! One turn's answer, put together from the events of its stream.
//!
//! Texts stay the JSON text that they came as (see text.rs): content is appended to the history's
//! next piece as it comes, and a surrogate pair whose halves came in two deltas is joined by that.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::text;

/// Longest message of a server that is shown, in bytes.
pub const MESSAGE_MAX: usize = 500;

#[derive(serde::Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    choices: Option<First<Choice<'a>>>,
}

#[derive(serde::Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Fragment<'a>>>,
}

#[derive(serde::Deserialize)]
struct Fragment<'a> {
    #[serde(default)]
    index: Option<i64>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(serde::Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// The first item of an array, if there is one.
struct First<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<First<T>, A::Error> {
                let first = items.next_element()?;
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// The inner text of a string value; empty for null, absent or anything else.
fn inner_or_empty(raw: Option<&RawValue>) -> &str {
    raw.and_then(|raw| text::inner(raw.get())).unwrap_or("")
}

/// A tool call; its texts are inner JSON text.
#[derive(Debug, Default, PartialEq)]
pub struct Call {
    index: Option<i64>,
    order: i64,
    pub id: String,
    pub name: String,
    pub arguments: String,
}

#[derive(Default)]
pub struct Answer {
    /// The assistant message's `content` so far: empty, or a JSON string without its closing quote.
    content: Vec<u8>,
    surrogates: bool,
    calls: Vec<Call>,
    current: usize,
    finished: bool,
    done: bool,
}

impl Answer {
    /// Take an event's data. An error is what the server or this program has to say of it.
    pub fn take(&mut self, data: &[u8]) -> Result<(), String> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
        }
        if self.done || data.is_empty() {
            return Ok(());
        }
        let data = String::from_utf8_lossy(data);
        let chunk: Chunk = serde_json::from_str(&data).map_err(|error| {
            format!("event of the stream is not a chunk ({error}): {}", text::cut(&data, 80))
        })?;
        if let Some(error) = chunk.error.filter(|error| error.get() != "false") {
            return Err(error_text(error.get()));
        }
        let Some(choice) = chunk.choices.and_then(|choices| choices.0) else {
            return Ok(());
        };
        if let Some(delta) = choice.delta {
            if let Some(content) = delta.content.and_then(|raw| text::inner(raw.get())) {
                if self.content.is_empty() {
                    self.content.push(b'"');
                }
                self.content.extend_from_slice(content.as_bytes());
                self.surrogates |= text::may_hold_surrogates(content);
            }
            for fragment in delta.tool_calls.into_iter().flatten() {
                self.take_fragment(fragment);
            }
        }
        self.finished |= !inner_or_empty(choice.finish_reason).is_empty();
        Ok(())
    }

    fn take_fragment(&mut self, fragment: Fragment) {
        let id = inner_or_empty(fragment.id);
        self.current = self.call_of(fragment.index, id);
        let call = &mut self.calls[self.current];
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        let Some(function) = fragment.function else { return };
        if call.name.is_empty() {
            call.name.push_str(inner_or_empty(function.name));
        }
        let Some(arguments) = function.arguments else { return };
        match text::inner(arguments.get()) {
            Some(inner) => call.arguments.push_str(inner),
            None => {
                let value = text::without_lone_surrogates(arguments.get());
                call.arguments.push_str(&text::escape(&value));
            }
        }
    }

    /// The position of the call that a fragment belongs to, begun if there is none.
    fn call_of(&mut self, index: Option<i64>, id: &str) -> usize {
        let found = match index {
            Some(_) => {
                let same = |call: &Call| call.index == index;
                let known = self.calls.iter().position(|call| same(call) && is_id(call, id));
                known.or_else(|| {
                    let last = self.calls.iter().rposition(same)?;
                    (id.is_empty() || self.calls[last].id.is_empty()).then_some(last)
                })
            }
            None if !id.is_empty() => self.calls.iter().position(|call| is_id(call, id)),
            None => (!self.calls.is_empty()).then_some(self.current),
        };
        found.unwrap_or_else(|| {
            let last = self.calls.iter().map(|call| call.order).max();
            let order = index.unwrap_or(last.map_or(0, |order| order.saturating_add(1)));
            self.calls.push(Call { index, order, ..Call::default() });
            self.calls.len() - 1
        })
    }

    /// `[DONE]` was seen.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The answer may be used if its stream has ended.
    pub fn is_complete(&self) -> bool {
        self.done || self.finished
    }

    /// The calls in order, and the assistant message that names them as the history has it, with
    /// its leading comma. `turn` makes up ids where the server gave none.
    pub fn finish(mut self, turn: u32) -> (Vec<Call>, Vec<u8>) {
        self.calls.sort_by_key(|call| call.order);
        let mut message = b",{\"role\":\"assistant\",\"content\":".to_vec();
        if self.content.is_empty() {
            message.extend_from_slice(b"null");
        } else {
            let content = String::from_utf8(std::mem::take(&mut self.content))
                .expect("content is made of text");
            let content = match self.surrogates {
                true => text::without_lone_surrogates(&content),
                false => Cow::Borrowed(content.as_str()),
            };
            message.extend_from_slice(content.as_bytes());
            message.push(b'"');
        }
        message.extend_from_slice(b",\"tool_calls\":[");
        for (k, call) in self.calls.iter_mut().enumerate() {
            for text in [&mut call.id, &mut call.name, &mut call.arguments] {
                if let Cow::Owned(clean) = text::without_lone_surrogates(text) {
                    *text = clean;
                }
            }
            if call.id.is_empty() {
                call.id = format!("call_{turn}_{k}");
            }
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
            if k > 0 {
                message.push(b',');
            }
            for part in [
                "{\"id\":\"",
                &call.id,
                "\",\"type\":\"function\",\"function\":{\"name\":\"",
                &call.name,
                "\",\"arguments\":\"",
                &call.arguments,
                "\"}}",
            ] {
                message.extend_from_slice(part.as_bytes());
            }
        }
        message.extend_from_slice(b"]}");
        (self.calls, message)
    }
}

/// True if `id`, inner text, is the call's; the same text may be escaped in two ways.
fn is_id(call: &Call, id: &str) -> bool {
    call.id == id || (!id.is_empty() && plain(&call.id) == plain(id))
}

fn plain(inner: &str) -> String {
    text::unescape(&text::without_lone_surrogates(inner)).into_owned()
}

/// What an error object of a server says, short.
fn error_text(error: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Error<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let message = match serde_json::from_str::<Error>(error) {
        Ok(parsed) => parsed.message.get(),
        Err(_) => error,
    };
    let message = match text::inner(message) {
        Some(inner) => plain(inner),
        None => message.to_owned(),
    };
    text::cut(&message, MESSAGE_MAX).to_owned()
}

/// What the body of a failed response says, short: its error's message, or its text.
pub fn body_text(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    match serde_json::from_str::<Chunk>(&body) {
        Ok(Chunk { error: Some(error), .. }) => error_text(error.get()),
        _ => {
            let words: Vec<&str> = body.split_whitespace().collect();
            text::cut(&words.join(" "), MESSAGE_MAX).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn answer_of(events: &[&str]) -> Answer {
        let mut answer = Answer::default();
        for event in events {
            answer.take(event.as_bytes()).unwrap();
        }
        answer
    }

    fn message_of(events: &[&str]) -> Value {
        let (_, message) = answer_of(events).finish(3);
        serde_json::from_slice(message.strip_prefix(b",").unwrap()).unwrap()
    }

    fn content_of(deltas: &[&str]) -> Value {
        let events: Vec<String> = deltas
            .iter()
            .map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#))
            .collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        message_of(&events)["content"].clone()
    }

    /// Calls as (id, name, arguments) from the `tool_calls` of each delta.
    fn calls_of(fragments: &[&str]) -> Vec<(String, String, String)> {
        let events: Vec<String> = fragments
            .iter()
            .map(|calls| format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#))
            .collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let message = message_of(&events);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let calls = message["tool_calls"].as_array().unwrap();
        calls
            .iter()
            .map(|call| {
                assert_eq!(call["type"], "function");
                let function = &call["function"];
                (text(&call["id"]), text(&function["name"]), text(&function["arguments"]))
            })
            .collect()
    }

    fn check_calls(fragments: &[&str], expected: &[(&str, &str, &str)]) {
        let calls = calls_of(fragments);
        let calls: Vec<_> =
            calls.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(calls, expected);
    }

    #[test]
    fn content() {
        assert_eq!(content_of(&[]), Value::Null);
        assert_eq!(content_of(&["{}", r#"{"content":null}"#, "null"]), Value::Null);
        assert_eq!(content_of(&[r#"{"role":"assistant","content":""}"#]), json!(""));
        assert_eq!(
            content_of(&[r#"{"content":"a\n"}"#, r#"{"content":"\"b é"}"#]),
            json!("a\n\"b é")
        );
        assert_eq!(content_of(&[r#"{"reasoning_content":"x"}"#]), Value::Null);
        assert_eq!(
            content_of(&[r#"{"content":"\ud83d"}"#, r#"{"content":"\ude00"}"#]),
            json!("😀")
        );
        assert_eq!(
            content_of(&[r#"{"content":"a\ud83d"}"#, r#"{"content":"b\ude00"}"#]),
            json!("a\u{fffd}b\u{fffd}")
        );
        assert_eq!(content_of(&[r#"{"content":"\u0000"}"#]), json!("\0"));
    }

    #[test]
    fn endings() {
        let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        assert!(answer_of(&[finish]).is_complete());
        assert!(!answer_of(&[finish]).is_done());
        assert!(answer_of(&["[DONE]"]).is_done());
        assert!(answer_of(&["[DONE]", "after"]).is_complete());
        for none in ["null", "\"\""] {
            let event = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":{none}}}]}}"#);
            assert!(!answer_of(&[&event]).is_complete());
        }
        for event in [" ", r#"{"choices":[]}"#, r#"{"usage":{}}"#, r#"{"choices":null}"#] {
            assert!(!answer_of(&[event]).is_complete());
        }
        let both = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a"}]},"finish_reason":"stop"}]}"#;
        let answer = answer_of(&[both]);
        assert!(answer.is_complete());
        assert_eq!(answer.finish(1).0.len(), 1);
    }

    #[test]
    fn errors() {
        let mut answer = Answer::default();
        let mut error = |data: &str| answer.take(data.as_bytes()).unwrap_err();
        assert_eq!(error(r#"{"error":{"message":"too \"much\"","code":1}}"#), "too \"much\"");
        assert_eq!(error(r#"{"error":"plain"}"#), "plain");
        assert_eq!(error(r#"{"error":{"code":1}}"#), r#"{"code":1}"#);
        assert_eq!(error(&format!(r#"{{"error":"{}"}}"#, "é".repeat(400))), "é".repeat(250));
        assert!(error("{\"choices\":").contains("not a chunk"));
        assert!(error("null").contains("not a chunk"));
        assert!(answer.take(br#"{"error":null}"#).is_ok());
        assert_eq!(body_text(br#"{"error":{"message":"m"}}"#), "m");
        assert_eq!(body_text(b"<html>\n  <b>Bad\tGateway</b>"), "<html> <b>Bad Gateway</b>");
        assert_eq!(body_text(b"\xff"), "\u{fffd}");
        assert_eq!(body_text(b""), "");
    }

    #[test]
    fn calls_by_index() {
        check_calls(
            &[
                r#"[{"index":1,"id":"b","function":{"name":"shell","arguments":"{\"x"}}]"#,
                r#"[{"index":0,"id":"a","type":"function","function":{"name":"exec","arguments":""}}]"#,
                r#"[{"index":1,"function":{"arguments":"\":1}"}},{"index":0,"function":{"arguments":"{}"}}]"#,
            ],
            &[("a", "exec", "{}"), ("b", "shell", "{\"x\":1}")],
        );
        // the same index with a new id is a new call; an old id is not
        check_calls(
            &[
                r#"[{"index":0,"id":"a","function":{"name":"exec","arguments":"1"}}]"#,
                r#"[{"index":0,"id":"b","function":{"name":"shell","arguments":"2"}}]"#,
                r#"[{"index":0,"id":"","function":{"arguments":"3"}}]"#,
                r#"[{"index":0,"id":"\u0061","function":{"arguments":"4"}}]"#,
            ],
            &[("a", "exec", "14"), ("b", "shell", "23")],
        );
        check_calls(
            &[
                r#"[{"index":0,"function":{"arguments":"1"}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"exec"}}]"#,
            ],
            &[("a", "exec", "1")],
        );
    }

    #[test]
    fn calls_without_index() {
        check_calls(
            &[
                r#"[{"id":"b","function":{"name":"exec","arguments":"1"}}]"#,
                r#"[{"function":{"arguments":"2"}}]"#,
                r#"[{"id":"a","function":{"name":"shell","arguments":"3"}}]"#,
                r#"[{"index":null,"id":"","function":{"arguments":"4"}}]"#,
                r#"[{"id":"b","function":{"arguments":"5"}}]"#,
                r#"[{"function":{"arguments":"6"}}]"#,
            ],
            &[("b", "exec", "1256"), ("a", "shell", "34")],
        );
        check_calls(&[r#"[{"function":{"name":"exec"}}]"#], &[("call_3_0", "exec", "{}")]);
    }

    #[test]
    fn names_and_arguments() {
        check_calls(
            &[
                r#"[{"index":0,"id":"a","function":{"name":"exec","arguments":"{\"a\\"}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"exec","arguments":"u00e9\":0}"}}]"#,
            ],
            &[("a", "exec", "{\"a\\u00e9\":0}")],
        );
        check_calls(
            &[r#"[{"index":0,"id":"a","function":{"name":null,"arguments":{"argv":["\"x"]}}}]"#],
            &[("a", "", r#"{"argv":["\"x"]}"#)],
        );
        for nothing in ["null", "\"\""] {
            let calls = format!(r#"[{{"index":0,"id":"a","function":{{"arguments":{nothing}}}}}]"#);
            check_calls(&[&calls], &[("a", "", "{}")]);
        }
        check_calls(
            &[
                r#"[{"index":0,"id":"a\ud83d","function":{"arguments":"\ud83d"}}]"#,
                r#"[{"index":0,"function":{"arguments":"\ude00\ude00"}}]"#,
                r#"[{"index":1,"id":"b","type":null}]"#,
            ],
            &[("a\u{fffd}", "", "😀\u{fffd}"), ("b", "", "{}")],
        );
    }
}
