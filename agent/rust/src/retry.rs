//! What of a failure is tried again, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::HeaderMap;
use hyper::StatusCode;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(8);
const LONGEST_ASKED_WAIT: Duration = Duration::from_secs(60);

pub fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429) || status.is_server_error()
}

/// How long to wait after failure k = 0, 1, … where the server did not say.
pub fn backoff(k: u32, random: &mut Random) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(1 << k.min(10)).min(LONGEST_WAIT);
    wait.mul_f64(0.75 + 0.25 * random.unit())
}

/// How long the server asks to wait.
pub fn asked_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|_| plain)
    };
    let seconds = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_ASKED_WAIT).min(LONGEST_ASKED_WAIT)
    };
    if let Some(milliseconds) = value("retry-after-ms").and_then(number) {
        return Some(seconds(milliseconds / 1000.0));
    }
    let after = value("retry-after")?;
    if let Some(after) = number(after) {
        return Some(seconds(after));
    }
    let date = httpdate::parse_http_date(after).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(LONGEST_ASKED_WAIT))
}

/// Random enough to keep sessions from retrying in step (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(stream: u32) -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Random(now.as_nanos() as u64 ^ (stream as u64) << 32 ^ std::process::id() as u64)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d049bb133111eb);
        value ^= value >> 31;
        (value >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        for (status, expected) in [
            (400, false),
            (401, false),
            (404, false),
            (408, true),
            (409, true),
            (429, true),
            (499, false),
            (500, true),
            (503, true),
            (599, true),
            (307, false),
        ] {
            assert_eq!(is_retryable(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }

    #[test]
    fn backoffs() {
        let mut random = Random::new(1);
        for (k, full) in
            [(0, 500.0), (1, 1000.0), (3, 4000.0), (4, 8000.0), (5, 8000.0), (99, 8000.0)]
        {
            let waits: Vec<f64> =
                (0..200).map(|_| backoff(k, &mut random).as_secs_f64() * 1e3).collect();
            assert!(waits.iter().all(|&wait| (0.75 * full..=full).contains(&wait)), "{k}");
            let spread = |wait: &&f64| **wait > 0.875 * full;
            let late = waits.iter().filter(spread).count();
            assert!((50..150).contains(&late), "{late}");
        }
    }

    #[test]
    fn what_the_server_asks() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let asked = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            asked_wait(&headers, now).map(|wait| wait.as_millis())
        };
        for (name, value, expected) in [
            ("retry-after", "2", Some(2000)),
            ("retry-after", " 0.5 ", Some(500)),
            ("retry-after", "0", Some(0)),
            ("retry-after", "86400", Some(60_000)),
            ("retry-after", "99999999999999999999999", Some(60_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT", Some(3000)),
            ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("retry-after", "Sat, 06 Nov 2094 08:49:37 GMT", Some(60_000)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("retry-after", "inf", None),
            ("retry-after", "NaN", None),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "x", None),
        ] {
            assert_eq!(asked(name, value), expected, "{name}: {value}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "2".parse().unwrap());
        headers.insert("retry-after-ms", "30".parse().unwrap());
        assert_eq!(asked_wait(&headers, now), Some(Duration::from_millis(30)));
        assert_eq!(asked_wait(&HeaderMap::new(), now), None);
    }
}
