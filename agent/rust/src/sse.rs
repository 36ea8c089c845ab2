//! Server-sent events, incrementally: bytes in pieces of any size in, the data of events out.
//!
//! An event that lies whole in one piece is handed on where it lies; only what a piece leaves
//! unfinished is copied.

use memchr::memchr2;

/// Cap of one line and of the data of one event, in bytes.
pub const EVENT_MAX: usize = 16 << 20;

/// How much is kept of lines that are no event stream's (a server's error page), in bytes.
const STRAY_MAX: usize = 4096;

#[derive(Debug, PartialEq)]
pub struct TooLong;

#[derive(Default)]
pub struct Parser {
    /// The line that the last piece left unfinished.
    line: Vec<u8>,
    /// Data lines of the event that is unfinished, joined by LF.
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    mark: Mark,
    stray: Vec<u8>,
}

/// How much of a byte order mark was seen at the start of the stream.
#[derive(Default, PartialEq)]
enum Mark {
    #[default]
    Unseen,
    Seen(u8),
    Past,
}

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Parser {
    /// Take a piece of the stream; `event` gets the data of each event that it completes, and what
    /// it returns as an error ends the call.
    pub fn push<E: From<TooLong>>(
        &mut self,
        mut piece: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.mark != Mark::Past {
            piece = self.skip_mark(piece);
        }
        if self.after_cr && !piece.is_empty() {
            self.after_cr = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        // The one data line of the event so far, while it lies in this piece.
        let mut here: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\n', b'\r', piece) {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            if piece[end] == b'\r' {
                self.after_cr = rest.is_empty();
                piece = rest.strip_prefix(b"\n").unwrap_or(rest);
            } else {
                piece = rest;
            }
            if !self.line.is_empty() {
                self.extend_line(line)?;
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, event)?;
            } else if let Some(data) = data_of(line) {
                if here.is_some() || self.has_data {
                    self.keep(here.take())?;
                    self.keep(Some(data))?;
                } else {
                    here = Some(data);
                }
            } else if line.is_empty() && here.is_some() {
                let data = here.take().unwrap_or_default();
                if !data.is_empty() {
                    event(data)?;
                }
            } else {
                self.end_line(line, event)?;
            }
        }
        self.keep(here)?;
        if piece.is_empty() {
            Ok(())
        } else {
            self.extend_line(piece).map_err(E::from)
        }
    }

    /// The stream has ended: its last line and event may lack their ends.
    pub fn finish<E: From<TooLong>>(
        &mut self,
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, event)?;
        }
        self.end_line(b"", event)
    }

    /// The first lines that were no event stream's.
    pub fn stray(&self) -> &[u8] {
        &self.stray
    }

    fn skip_mark<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let mut seen = match self.mark {
            Mark::Seen(seen) => seen as usize,
            _ => 0,
        };
        for (at, &byte) in piece.iter().enumerate() {
            if byte != BYTE_ORDER_MARK[seen] {
                // Not a mark after all: what looked like its start belongs to the first line.
                self.mark = Mark::Past;
                self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
                return &piece[at..];
            }
            seen += 1;
            if seen == BYTE_ORDER_MARK.len() {
                self.mark = Mark::Past;
                return &piece[at + 1..];
            }
        }
        self.mark = Mark::Seen(seen as u8);
        &[]
    }

    fn extend_line(&mut self, more: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + more.len() > EVENT_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn keep(&mut self, data: Option<&[u8]>) -> Result<(), TooLong> {
        let Some(data) = data else { return Ok(()) };
        if self.data.len() + data.len() > EVENT_MAX {
            return Err(TooLong);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
        Ok(())
    }

    fn end_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(data) = data_of(line) {
            self.keep(Some(data))?;
        } else if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    event(&data)?;
                }
            }
        } else if !is_ignored(line) && self.stray.len() < STRAY_MAX {
            let room = STRAY_MAX - self.stray.len();
            self.stray.extend_from_slice(&line[..line.len().min(room)]);
            self.stray.push(b'\n');
        }
        Ok(())
    }
}

/// The value of a data line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(b""),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// Comments and the fields that this program has no use for.
fn is_ignored(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or(line);
    line[0] == b':' || matches!(name, b"event" | b"id" | b"retry")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(pieces: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        let mut event = |data: &[u8]| -> Result<(), TooLong> {
            events.push(String::from_utf8_lossy(data).into_owned());
            Ok(())
        };
        for piece in pieces {
            parser.push(piece, &mut event).unwrap();
        }
        parser.finish(&mut event).unwrap();
        events
    }

    /// The events are the same however the stream is split in two or three, or byte by byte.
    fn check(stream: &[u8], expected: &[&str]) {
        assert_eq!(events_of(&[stream]), expected);
        for i in 0..=stream.len() {
            assert_eq!(events_of(&[&stream[..i], &stream[i..]]), expected, "split at {i}");
            for j in i..=stream.len() {
                let pieces = [&stream[..i], &stream[i..j], &stream[j..]];
                assert_eq!(events_of(&pieces), expected, "split at {i} and {j}");
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events_of(&bytes), expected, "byte by byte");
    }

    #[test]
    fn line_ends() {
        check(b"data: a\n\ndata: b\n\n", &["a", "b"]);
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check(b"data: a\r\rdata: b\r\r", &["a", "b"]);
        check(b"data: a\n\r\ndata: b\r\n\n", &["a", "b"]);
        check(b"data: a", &["a"]);
        check(b"data: a\n", &["a"]);
        check(b"", &[]);
    }

    #[test]
    fn an_event_comes_with_its_last_line_end() {
        let mut parser = Parser::default();
        let mut count = 0;
        let mut event = |_: &[u8]| -> Result<(), TooLong> {
            count += 1;
            Ok(())
        };
        parser.push(b"data: a\r\n\r", &mut event).unwrap();
        parser.push(b"\ndata: b\r\r", &mut event).unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn fields() {
        check(b"data:x\n\ndata:  y\n\n", &["x", " y"]);
        check(b"data: a\ndata: b\ndata:c\n\n", &["a\nb\nc"]);
        check(b": ping\n\n:\nevent: e\nid: 1\nretry: 5\ndata: a\nid\n\n", &["a"]);
        check(b"data:\n\ndata\n\ndata: a\n\n", &["a"]);
        check(b"data:\ndata:\n\n", &["\n"]);
        check(b"data: a\n: c\ndata: b\n\n", &["a\nb"]);
        check(b"datax: a\ndata: b\n\n", &["b"]);
        check(b"\n\n\ndata: \xf0\x9f\x98\x80\n\n", &["\u{1f600}"]);
    }

    #[test]
    fn byte_order_mark() {
        check(b"\xef\xbb\xbfdata: a\n\n", &["a"]);
        check(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", &["b"]);
        check(b"\xef\xbbdata: a\n\ndata: b\n\n", &["b"]);
        check(b"\xefdata: a\n\ndata: b\n\n", &["b"]);
        check(b"\n\xef\xbb\xbfdata: a\n\n", &[]);
    }

    #[test]
    fn stray_lines_are_kept() {
        let mut parser = Parser::default();
        let mut event = |_: &[u8]| -> Result<(), TooLong> { panic!("no event") };
        parser.push(b"{\"error\":\n{\"message\":\"no\"}}", &mut event).unwrap();
        parser.finish(&mut event).unwrap();
        assert_eq!(parser.stray(), b"{\"error\":\n{\"message\":\"no\"}}\n");
    }

    #[test]
    fn long_lines() {
        let text = vec![b'x'; EVENT_MAX - 6];
        let mut parser = Parser::default();
        let mut length = 0;
        let mut event = |data: &[u8]| -> Result<(), TooLong> {
            length = data.len();
            Ok(())
        };
        parser.push(b"data: ", &mut event).unwrap();
        for piece in text.chunks(65536) {
            parser.push(piece, &mut event).unwrap();
        }
        parser.push(b"\n\n", &mut event).unwrap();
        parser.push(b"data: ", &mut event).unwrap();
        parser.push(&text, &mut event).unwrap();
        assert_eq!(parser.push(b"x", &mut event), Err(TooLong));
        assert_eq!(length, text.len());

        let mut parser = Parser::default();
        let mut event = |_: &[u8]| -> Result<(), TooLong> { Ok(()) };
        let line = [b"data:".as_slice(), &text[..1 << 20], b"\n"].concat();
        let outcome = (0..17).try_for_each(|_| parser.push(&line, &mut event));
        assert_eq!(outcome, Err(TooLong));
    }
}
