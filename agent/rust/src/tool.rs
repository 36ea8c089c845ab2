//! Tools: what a call asks for, and the message that answers it, byte for byte.

use std::ffi::CString;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::Deserialize;

use crate::answer::Call;
use crate::process::{Ending, Outcome};
use crate::text;

/// What a call comes to: a program to run, or what answers it at once.
pub enum Request {
    Run(Vec<CString>),
    Refuse(String),
}

impl Request {
    pub fn of(call: &Call) -> Request {
        let argv = match call.name.as_str() {
            "exec" => arguments::<Vec<String>>(call, "argv").filter(|argv| !argv.is_empty()),
            "shell" => arguments::<String>(call, "command")
                .map(|command| vec!["/bin/sh".into(), "-c".into(), command]),
            name => {
                let name = text::unescape(name);
                return Request::Refuse(format!("[error] unknown tool: {name}"));
            }
        };
        let argv: Option<Vec<CString>> =
            argv.and_then(|argv| argv.into_iter().map(|arg| CString::new(arg).ok()).collect());
        match argv {
            Some(argv) => Request::Run(argv),
            None => Request::Refuse("[error] invalid arguments".into()),
        }
    }
}

/// Member `name` of the call's arguments, if they are an object and it is of the right shape.
fn arguments<T: for<'de> Deserialize<'de>>(call: &Call, name: &'static str) -> Option<T> {
    let arguments = text::unescape(&call.arguments);
    let arguments = text::without_lone_surrogates(&arguments);
    let mut parser = serde_json::Deserializer::from_str(&arguments);
    let value = parser.deserialize_map(Member { name }).ok()??;
    parser.end().ok()?;
    serde_json::from_str(value.get()).ok()
}

/// Finds one member of an object; the last of a name counts.
struct Member {
    name: &'static str,
}

impl<'de> Visitor<'de> for Member {
    type Value = Option<&'de serde_json::value::RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<std::borrow::Cow<str>>()? {
            if name == self.name {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Writes a tool message's text as inner JSON text, and remembers how it ends.
struct Message<'a> {
    out: &'a mut Vec<u8>,
    room: usize,
    last: Option<u8>,
}

impl Message<'_> {
    /// Append bytes decoded as UTF-8; false if not all of them had room.
    fn decode(&mut self, bytes: &[u8]) -> bool {
        bytes.utf8_chunks().all(|chunk| {
            self.text(chunk.valid()) && (chunk.invalid().is_empty() || self.text("\u{fffd}"))
        })
    }

    fn text(&mut self, text: &str) -> bool {
        let fitting = text::cut(text, self.room);
        self.room -= fitting.len();
        if let Some(&last) = fitting.as_bytes().last() {
            self.last = Some(last);
            text::escape_into(self.out, fitting);
        }
        fitting.len() == text.len()
    }

    fn line(&mut self, line: &str) {
        if self.last.is_some_and(|last| last != b'\n') {
            self.out.extend_from_slice(b"\\n");
        }
        text::escape_into(self.out, line);
        self.last = line.bytes().last();
    }
}

/// Append the text of a tool message, as inner JSON text.
pub fn write_message(out: &mut Vec<u8>, outcome: &Outcome, output_max: usize) {
    let mut message = Message { out, room: output_max, last: None };
    if !(message.decode(&outcome.stdout) && message.decode(&outcome.stderr)) {
        message.line("[truncated]");
    }
    match outcome.ending {
        Ending::Exit(0) => {}
        Ending::Exit(status) => message.line(&format!("[exit {status}]")),
        Ending::Timeout => message.line("[timeout]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stdout: &[u8], stderr: &[u8], ending: Ending, max: usize) -> String {
        let outcome = Outcome { stdout: stdout.into(), stderr: stderr.into(), ending };
        let mut out = Vec::new();
        write_message(&mut out, &outcome, max);
        text::unescape(std::str::from_utf8(&out).unwrap()).into_owned()
    }

    #[test]
    fn messages() {
        let ok = Ending::Exit(0);
        for (stdout, stderr, ending, max, expected) in [
            (&b""[..], &b""[..], ok, 16, ""),
            (b"out\n", b"err\n", ok, 16, "out\nerr\n"),
            (b"out", b"err", ok, 16, "outerr"),
            (b"", b"", Ending::Exit(3), 16, "[exit 3]"),
            (b"out", b"", Ending::Exit(137), 16, "out\n[exit 137]"),
            (b"out\n", b"", Ending::Exit(1), 16, "out\n[exit 1]"),
            (b"out", b"", Ending::Timeout, 16, "out\n[timeout]"),
            (b"0123456789abcdef", b"", ok, 16, "0123456789abcdef"),
            (b"0123456789abcdef0", b"", ok, 16, "0123456789abcdef\n[truncated]"),
            (
                b"0123456789abcdef",
                b"x",
                Ending::Exit(1),
                16,
                "0123456789abcdef\n[truncated]\n[exit 1]",
            ),
            (b"0123456789abcde\n0", b"", ok, 16, "0123456789abcde\n[truncated]"),
            ("0123456789abcd😀".as_bytes(), b"", ok, 16, "0123456789abcd\n[truncated]"),
            // what follows a cut is dropped, even if it is shorter than what had no room
            ("0123456789abcd😀".as_bytes(), b"x", ok, 16, "0123456789abcd\n[truncated]"),
            (b"0123456789abcd\xff", b"", ok, 16, "0123456789abcd\n[truncated]"),
            (b"0123456789abc\xff", b"", ok, 16, "0123456789abc\u{fffd}"),
        ] {
            assert_eq!(message(stdout, stderr, ending, max), expected);
        }
    }

    #[test]
    fn invalid_sequences_are_those_of_whatwg() {
        for (bytes, expected) in [
            (&b"a\xffb"[..], "a\u{fffd}b"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82a", "\u{fffd}a"),
            (b"\xf0\x9f\x98\xe2\x82", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xef\xbb\xbfx", "\u{feff}x"),
            (b"\0", "\0"),
        ] {
            assert_eq!(message(bytes, b"", Ending::Exit(0), 99), expected);
        }
        // stdout and stderr are decoded apart
        assert_eq!(message(b"\xe2\x82", b"\xac", Ending::Exit(0), 99), "\u{fffd}\u{fffd}");
    }

    fn request(name: &str, arguments: &str) -> Result<Vec<String>, String> {
        let mut call = Call::default();
        call.name = text::escape(name);
        call.arguments = text::escape(arguments);
        match Request::of(&call) {
            Request::Run(argv) => {
                Ok(argv.into_iter().map(|arg| arg.into_string().unwrap()).collect())
            }
            Request::Refuse(message) => Err(message),
        }
    }

    #[test]
    fn requests() {
        let run = |argv: &[&str]| Ok(argv.iter().map(|arg| arg.to_string()).collect::<Vec<_>>());
        assert_eq!(request("exec", r#"{"argv":["a","b \u00e9"]}"#), run(&["a", "b é"]));
        assert_eq!(request("exec", r#" {"x":{"argv":1},"argv":[""]} "#), run(&[""]));
        assert_eq!(request("exec", r#"{"argv":[1],"argv":["a"]}"#), run(&["a"]));
        assert_eq!(request("exec", r#"{"argv":["\ud83d"]}"#), run(&["\u{fffd}"]));
        assert_eq!(request("exec", r#"{"n":1e999,"argv":["a"]}"#), run(&["a"]));
        assert_eq!(request("shell", r#"{"command":""}"#), run(&["/bin/sh", "-c", ""]));
        for (name, arguments) in [
            ("exec", "{}"),
            ("exec", r#"{"argv":[]}"#),
            ("exec", r#"{"argv":"a"}"#),
            ("exec", r#"{"argv":["a",1]}"#),
            ("exec", r#"{"argv":["a\u0000"]}"#),
            ("exec", r#"{"argv":null}"#),
            ("exec", r#"["a"]"#),
            ("exec", r#"{"argv":["a"]"#),
            ("exec", r#"{"argv":["a"]} x"#),
            ("exec", "null"),
            ("exec", ""),
            ("shell", r#"{"command":1}"#),
            ("shell", r#"{"command":"\u0000"}"#),
            ("shell", r#"{"argv":["a"]}"#),
        ] {
            assert_eq!(
                request(name, arguments),
                Err("[error] invalid arguments".into()),
                "{arguments}"
            );
        }
        assert_eq!(request("a\"b", "{}"), Err("[error] unknown tool: a\"b".into()));
        assert_eq!(request("", "x"), Err("[error] unknown tool: ".into()));
    }
}
