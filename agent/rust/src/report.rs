//! Lines on stdout (the contract's section 6), each written in one piece.

use std::io::Write;
use std::time::Duration;

use hyper::header::HeaderValue;

use crate::answer::MESSAGE_MAX;
use crate::text;

/// Longest line, its LF included, in bytes.
const LINE_MAX: usize = 512;

fn line(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // If nobody reads any more, there is nobody to tell.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

pub fn done() {
    line("{\"event\":\"done\"}\n");
}

pub fn turn(session: &HeaderValue, turn: u32, attempt: u32, time: Duration) {
    let session = session.to_str().unwrap_or("");
    let turn_ns = time.as_nanos();
    line(&format!(
        "{{\"event\":\"turn\",\"session\":\"{session}\",\"turn\":{turn},\"attempt\":{attempt},\"turn_ns\":{turn_ns}}}\n"
    ));
}

pub fn error(session: &str, turn: u32, message: &str) {
    line(&error_line(session, turn, message));
}

fn error_line(session: &str, turn: u32, message: &str) -> String {
    let mut max = MESSAGE_MAX;
    loop {
        let message = text::escape(text::cut(message, max));
        let line = format!(
            "{{\"event\":\"error\",\"session\":\"{session}\",\"turn\":{turn},\"message\":\"{message}\"}}\n"
        );
        match line.len().checked_sub(LINE_MAX) {
            None | Some(0) => return line,
            // Escapes take at most six bytes for one.
            Some(excess) => max -= excess.div_ceil(6).min(max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lines_fit() {
        for message in
            ["short \"one\"", &"x".repeat(9000), &"\u{1}".repeat(9000), &"é\n".repeat(900)]
        {
            let line = error_line("s10000", u32::MAX, message);
            assert!(line.len() <= LINE_MAX && line.ends_with('\n'));
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            let shown = value["message"].as_str().unwrap();
            assert!(message.starts_with(shown));
            assert!(shown == message || line.len() > LINE_MAX - 12);
        }
    }
}
