//! JSON text that is never decoded: what a server sent in a string is spliced, as it stands, into
//! the strings that are sent back. "Inner" text is a JSON string's content between its quotes.

use std::borrow::Cow;

const REPLACEMENT: &str = "\u{fffd}";

/// For each byte of a string: 0 if it may stand as it is, else the character after the backslash
/// ('u' for the long form).
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// Append `text` as inner text.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 16);
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[byte as usize];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        if escape == b'u' {
            let (high, low) = (HEX[byte as usize >> 4], HEX[byte as usize & 15]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        } else {
            out.extend_from_slice(&[b'\\', escape]);
        }
        start = at + 1;
    }
    out.extend_from_slice(&bytes[start..]);
}

pub fn escape(text: &str) -> String {
    let mut out = Vec::new();
    escape_into(&mut out, text);
    String::from_utf8(out).expect("escaping keeps UTF-8")
}

/// The inner text of a JSON string that a parser has accepted; `None` for any other value.
pub fn inner(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// True if inner text may hold half a surrogate pair.
pub fn may_hold_surrogates(inner: &str) -> bool {
    memchr::memmem::find(inner.as_bytes(), b"\\ud").is_some()
        || memchr::memmem::find(inner.as_bytes(), b"\\uD").is_some()
}

/// Valid JSON text with each escape of a lone half of a surrogate pair replaced by U+FFFD.
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !may_hold_surrogates(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match unit_of(rest) {
            Some(0xd800..=0xdbff) => match unit_of(&rest[6..]) {
                Some(0xdc00..=0xdfff) => 12,
                _ => 0,
            },
            Some(0xdc00..=0xdfff) => 0,
            Some(_) => 6,
            None => 2.min(rest.len()),
        };
        if length == 0 {
            out.push_str(REPLACEMENT);
            rest = &rest[6..];
        } else {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The UTF-16 unit of an escape `\uXXXX` at the start of `text`.
fn unit_of(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The text that inner text without lone surrogates stands for.
pub fn unescape(inner: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let whole = ["\"", inner, "\""].concat();
    Cow::Owned(serde_json::from_str(&whole).expect("inner text is that of a JSON string"))
}

/// The longest prefix of whole characters that takes at most `max` bytes.
pub fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_a_parser_reads_them() {
        let all: String = (0..0x300u32).filter_map(char::from_u32).collect();
        for text in ["", "a", "\"", "\\", "a\"b\\c\u{0}\u{1f}\u{7f}é😀\u{2028}\n", &all] {
            let json = format!("\"{}\"", escape(text));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert_eq!(unescape(inner(&json).unwrap()), text);
        }
        assert_eq!(escape("\u{0}\u{8}\t\n\u{c}\r\u{1b}"), r"\u0000\b\t\n\f\r\u001b");
    }

    #[test]
    fn inner_of_strings_only() {
        assert_eq!(inner(r#""a\"""#), Some(r#"a\""#));
        assert_eq!(inner("\"\""), Some(""));
        for other in ["null", "1", "{}", "[]", "true"] {
            assert_eq!(inner(other), None);
        }
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        for (text, expected) in [
            ("plain é", "plain é"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\uD83D\uDE00", r"\uD83D\uDE00"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ude00", "\u{fffd}"),
            (r"a\ud83db", "a\u{fffd}b"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\\ud83d\\ude00"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\n\ude00", "\u{fffd}\\n\u{fffd}"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\\\ud83d", "\\\\\u{fffd}"),
            (r"\ud83d\\ude00", "\u{fffd}\\\\ude00"),
            (r"\u00e9\ud83d", "\\u00e9\u{fffd}"),
            (r#"{"a":"\ud83d"}"#, "{\"a\":\"\u{fffd}\"}"),
        ] {
            assert_eq!(without_lone_surrogates(text), expected, "{text}");
        }
    }

    #[test]
    fn cuts_between_characters() {
        assert_eq!(cut("aé😀", 9), "aé😀");
        assert_eq!(cut("aé😀", 6), "aé");
        assert_eq!(cut("aé😀", 3), "aé");
        assert_eq!(cut("aé😀", 2), "a");
        assert_eq!(cut("😀", 3), "");
    }
}
