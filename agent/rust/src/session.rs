//! The loop of one session: request, stream, tools, again.

use std::error::Error;
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{ready, Poll};
use std::time::{Duration, SystemTime};

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{sleep, sleep_until, timeout, Instant, Sleep};

use crate::answer::{body_text, Answer, Call};
use crate::config::Config;
use crate::history::{History, Sending};
use crate::http::{Connection, Payload, Target};
use crate::process::{self, Process};
use crate::report;
use crate::retry::{asked_wait, backoff, is_retryable, Random};
use crate::sse;
use crate::text;
use crate::tool;

/// How much of a failed response's body is read for its message, in bytes.
const ERROR_BODY_MAX: usize = 64 << 10;
/// What may follow `[DONE]` before the connection is given up instead of used again.
const REST_MAX: usize = 64 << 10;
const REST_TIMEOUT: Duration = Duration::from_secs(1);
const REDIRECTIONS_MAX: u32 = 5;

const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Why an attempt at a turn failed.
enum Failure {
    /// The server had closed the kept-alive connection: does not count as an attempt.
    Stale,
    Retryable {
        message: String,
        wait: Option<Duration>,
    },
    Fatal(String),
}

impl Failure {
    fn retryable(message: impl Into<String>) -> Failure {
        Failure::Retryable { message: message.into(), wait: None }
    }
}

impl From<sse::TooLong> for Failure {
    fn from(_: sse::TooLong) -> Failure {
        Failure::Fatal("the stream has a line or an event longer than 16 MiB".into())
    }
}

struct Session {
    config: &'static Config,
    name: HeaderValue,
    history: Arc<History>,
    connection: Option<Connection>,
    random: Random,
}

/// Run session `number`; true if it ended well.
pub async fn run(config: &'static Config, number: u32) -> bool {
    let name = format!("s{number}");
    let mut history = History::new(&config.body_head);
    let task = text::escape(&config.task.replace("{session}", &name));
    history.push([",{\"role\":\"user\",\"content\":\"", &task, "\"}"].concat().into_bytes());
    let mut session = Session {
        config,
        name: HeaderValue::from_str(&name).expect("a letter and digits"),
        history: Arc::new(history),
        connection: None,
        random: Random::new(number),
    };
    let mut turn = 1;
    loop {
        match session.turn(turn).await {
            Ok(true) => turn += 1,
            Ok(false) => return true,
            Err(message) => {
                report::error(&name, turn, &message);
                return false;
            }
        }
    }
}

impl Session {
    /// One turn with its retries and tools; true if another one follows.
    async fn turn(&mut self, turn: u32) -> Result<bool, String> {
        let mut attempt = 1;
        let mut retries = 0;
        let (start, answer, rest) = loop {
            let start = Instant::now();
            match self.attempt().await {
                Ok((answer, rest)) => break (start, answer, rest),
                Err(Failure::Stale) => {}
                Err(Failure::Retryable { wait, .. }) if retries < self.config.retries => {
                    sleep(wait.unwrap_or_else(|| backoff(retries, &mut self.random))).await;
                    retries += 1;
                }
                Err(Failure::Retryable { message, .. } | Failure::Fatal(message)) => {
                    return Err(message);
                }
            }
            attempt += 1;
        };
        let (calls, message) = answer.finish(turn);
        if !calls.is_empty() {
            self.run_tools(&calls, message, rest).await;
        }
        if self.config.report {
            report::turn(&self.name, turn, attempt, start.elapsed());
        }
        Ok(!calls.is_empty())
    }

    /// Run the calls of a turn, all at once, and append the turn to the history. `rest` is what
    /// follows the answer on the connection.
    async fn run_tools(&mut self, calls: &[Call], message: Vec<u8>, rest: Option<Payload>) {
        enum Running {
            Task(tokio::task::JoinHandle<process::Outcome>),
            Refused(String),
        }
        let running: Vec<Running> = calls
            .iter()
            .map(|call| match tool::Request::of(call) {
                tool::Request::Run(argv) => {
                    let started = Process::start(&argv);
                    let work = process::run(started, argv, self.config.tools);
                    Running::Task(tokio::spawn(work))
                }
                tool::Request::Refuse(message) => Running::Refused(message),
            })
            .collect();
        let write = async {
            let mut piece = message;
            for (call, running) in calls.iter().zip(running) {
                let outcome = match running {
                    Running::Task(task) => Ok(task.await.expect("a tool's task does not panic")),
                    Running::Refused(message) => Err(message),
                };
                let output = outcome.as_ref().map_or(0, |o| o.stdout.len() + o.stderr.len());
                piece.reserve(output + output / 16 + call.id.len() + 128);
                piece.extend_from_slice(b",{\"role\":\"tool\",\"tool_call_id\":\"");
                piece.extend_from_slice(call.id.as_bytes());
                piece.extend_from_slice(b"\",\"content\":\"");
                match &outcome {
                    Ok(outcome) => {
                        tool::write_message(&mut piece, outcome, self.config.output_max);
                    }
                    Err(message) => text::escape_into(&mut piece, message),
                }
                piece.extend_from_slice(b"\"}");
            }
            piece
        };
        let connection = &mut self.connection;
        let settle = async {
            let (Some(rest), Some(open)) = (rest, connection.as_mut()) else { return };
            if !timeout(REST_TIMEOUT, open.drive(is_rest_short(rest))).await.unwrap_or(false) {
                *connection = None;
            }
        };
        let (piece, ()) = tokio::join!(write, settle);
        Arc::make_mut(&mut self.history).push(piece);
    }

    /// One attempt at a turn: the answer and, if its response has not ended with it, the rest.
    async fn attempt(&mut self) -> Result<(Answer, Option<Payload>), Failure> {
        let mut idle = Idle::new(self.config.idle);
        let (mut connection, response) = self.post(&mut idle).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(connection, response, &mut idle).await);
        }
        let mut payload = Payload::new(response);
        let mut parser = sse::Parser::default();
        let mut answer = Answer::default();
        let mut cut = None;
        let mut ended = false;
        while !ended {
            let piece = idle.within(connection.drive(payload.next())).await;
            let mut event = |data: &[u8]| {
                idle.heard();
                answer.take(data).map_err(Failure::retryable)
            };
            match piece {
                Some(Some(Ok(data))) => parser.push(&data, &mut event)?,
                Some(None) => {
                    ended = true;
                    parser.finish(&mut event)?;
                }
                Some(Some(Err(error))) => {
                    cut = Some(format!("connection lost: {}", chain(&*error)));
                    break;
                }
                None => {
                    cut = Some(self.silence());
                    break;
                }
            }
            if answer.is_done() {
                break;
            }
        }
        if !answer.is_complete() {
            return Err(Failure::retryable(cut.unwrap_or_else(|| match parser.stray() {
                [] => "the stream ended before the answer did".into(),
                stray => format!("not an event stream: {}", body_text(stray)),
            })));
        }
        if cut.is_none() {
            self.connection = Some(connection);
        }
        Ok((answer, (!ended).then_some(payload)))
    }

    /// Send the history, follow redirections: the response and the connection that it comes on.
    async fn post(&mut self, idle: &mut Idle) -> Result<(Connection, Response<Incoming>), Failure> {
        let home = &self.config.target;
        let mut elsewhere: Option<Target> = None;
        for _ in 0..=REDIRECTIONS_MAX {
            let target = elsewhere.as_ref().unwrap_or(home);
            let at_home = target.is_same_origin(home);
            let kept = match self.connection.take() {
                Some(mut kept) if at_home => kept.is_ready().await.then_some(kept),
                _ => None,
            };
            let mut connection = match kept {
                Some(kept) => kept,
                None => {
                    // Boxed: rare and large, it would make every session's task larger.
                    let opened = Box::pin(Connection::open(target, self.config));
                    let opened = idle.within(opened).await;
                    opened.ok_or_else(|| Failure::retryable(self.silence()))?.map_err(|error| {
                        Failure::retryable(format!("cannot connect: {}", chain(&error)))
                    })?
                }
            };
            let used = connection.used;
            let request = self.request(target, at_home);
            let response = idle.within(connection.send(request)).await;
            let response = response.ok_or_else(|| Failure::retryable(self.silence()))?;
            let response = response.map_err(|error| match used && !connection.has_heard() {
                true => Failure::Stale,
                false => Failure::retryable(format!("connection lost: {}", chain(&error))),
            })?;
            let redirects = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
            if !redirects.contains(&response.status()) {
                if !at_home {
                    connection.used = false;
                }
                return Ok((connection, response));
            }
            let location = response.headers().get(header::LOCATION);
            let next = location.and_then(|value| target.redirected(value.to_str().ok()?));
            elsewhere = Some(next.ok_or_else(|| {
                Failure::Fatal(format!(
                    "HTTP {}: redirected to nowhere",
                    response.status().as_u16()
                ))
            })?);
        }
        Err(Failure::Fatal("redirected too often".into()))
    }

    fn request(&self, target: &Target, at_home: bool) -> Request<Sending> {
        let mut request = Request::new(Sending::new(&self.history));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.path.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, target.authority.clone());
        if at_home {
            headers.insert(header::AUTHORIZATION, self.config.authorization.clone());
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(SESSION_ID, self.name.clone());
        request
    }

    /// What a response that is no answer amounts to; its connection is kept if it can be.
    async fn refusal(
        &mut self,
        mut connection: Connection,
        response: Response<Incoming>,
        idle: &mut Idle,
    ) -> Failure {
        let status = response.status();
        let wait = asked_wait(response.headers(), SystemTime::now());
        let mut payload = Payload::new(response);
        let mut bytes = Vec::new();
        while bytes.len() < ERROR_BODY_MAX {
            match idle.within(connection.drive(payload.next())).await {
                Some(Some(Ok(data))) => {
                    idle.heard();
                    bytes.extend_from_slice(&data);
                }
                Some(None) => {
                    self.connection = Some(connection);
                    break;
                }
                _ => break,
            }
        }
        let message = format!("HTTP {}: {}", status.as_u16(), body_text(&bytes));
        match is_retryable(status) {
            true => Failure::Retryable { message, wait },
            false => Failure::Fatal(message),
        }
    }

    fn silence(&self) -> String {
        format!("the server was silent for {} ms", self.config.idle.as_millis())
    }
}

/// Read a body to its end; false if that is too far away.
async fn is_rest_short(mut rest: Payload) -> bool {
    let mut length = 0;
    while let Some(data) = rest.next().await {
        length += data.map_or(usize::MAX, |data| data.len());
        if length > REST_MAX {
            return false;
        }
    }
    true
}

/// The limit of the server's silence. One timer serves a whole answer: it is moved when it fires,
/// not at every event.
struct Idle {
    timer: Pin<Box<Sleep>>,
    heard: Instant,
    limit: Duration,
}

impl Idle {
    fn new(limit: Duration) -> Idle {
        let heard = Instant::now();
        Idle { timer: Box::pin(sleep_until(heard + limit)), heard, limit }
    }

    /// The server was heard: its silence begins anew.
    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// What `work` comes to, or `None` when the limit passes first.
    async fn within<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            loop {
                ready!(self.timer.as_mut().poll(cx));
                let due = self.heard + self.limit;
                if Instant::now() >= due {
                    return Poll::Ready(None);
                }
                self.timer.as_mut().reset(due);
            }
        })
        .await
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
