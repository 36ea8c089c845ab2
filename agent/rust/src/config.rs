//! The settings of the contract's section 1, from the environment.

use std::fmt::Display;
use std::io;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use hyper::header::HeaderValue;

use crate::http::{Target, Tls};
use crate::process::Limits;
use crate::text;

/// The `tools` member of requests.
const TOOLS: &str = concat!(
    r#"[{"type":"function","function":{"name":"exec","description":"Run a program without a shell.","#,
    r#""parameters":{"type":"object","properties":{"argv":{"type":"array","items":{"type":"string"},"#,
    r#""minItems":1}},"required":["argv"]}}},"#,
    r#"{"type":"function","function":{"name":"shell","description":"Run a command with /bin/sh.","#,
    r#""parameters":{"type":"object","properties":{"command":{"type":"string"}},"#,
    r#""required":["command"]}}}]"#
);

pub struct Config {
    pub target: Target,
    tls: OnceLock<Tls>,
    pub authorization: HeaderValue,
    pub sessions: u32,
    /// A request's body up to and with the system message.
    pub body_head: Vec<u8>,
    pub task: String,
    pub tools: Limits,
    pub output_max: usize,
    pub idle: Duration,
    pub retries: u32,
    pub report: bool,
}

impl Config {
    /// An error names the variable.
    pub fn from_environment() -> Result<Config, String> {
        let base = required("OPENAI_BASE_URL")?;
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        let target = Target::parse(&url).ok_or_else(|| {
            format!("OPENAI_BASE_URL: must be an http:// or https:// URL, is '{base}'")
        })?;
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {}", required("OPENAI_API_KEY")?))
                .map_err(|_| "OPENAI_API_KEY: must be printable ASCII")?;
        authorization.set_sensitive(true);
        let model = required("OPENAI_MODEL")?;
        let path = required("AGENT_SYSTEM_PROMPT_FILE")?;
        let system = std::fs::read(&path)
            .map_err(|error| format!("AGENT_SYSTEM_PROMPT_FILE: cannot read '{path}': {error}"))?;
        let system = String::from_utf8(system)
            .map_err(|_| format!("AGENT_SYSTEM_PROMPT_FILE: '{path}' is not UTF-8"))?;
        let ca_file = optional("AGENT_CA_FILE")?;
        let tls = OnceLock::new();
        if target.tls || ca_file.is_some() {
            let trusted = Tls::new(ca_file.as_deref()).map_err(|error| {
                let path = ca_file.as_deref().unwrap_or("the system's certificates");
                format!("AGENT_CA_FILE: cannot use '{path}': {error}")
            })?;
            let _ = tls.set(trusted);
        }
        let output_max: usize = integer("AGENT_TOOL_OUTPUT_MAX", 16, 16 << 20, 64 << 10)?;
        let milliseconds = |name| integer(name, 1, 86_400_000, 60_000).map(Duration::from_millis);
        let body_head = [
            "{\"model\":\"",
            &text::escape(&model),
            "\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"tools\":",
            TOOLS,
            ",\"messages\":[{\"role\":\"system\",\"content\":\"",
            &text::escape(&system),
            "\"}",
        ];
        Ok(Config {
            target,
            tls,
            authorization,
            sessions: integer("AGENT_SESSIONS", 1, 10_000, 1)?,
            body_head: body_head.concat().into_bytes(),
            task: required("AGENT_TASK")?,
            tools: Limits { timeout: milliseconds("AGENT_TOOL_TIMEOUT_MS")?, keep: output_max + 4 },
            output_max,
            idle: milliseconds("AGENT_IDLE_TIMEOUT_MS")?,
            retries: integer("AGENT_MAX_RETRIES", 0, 100, 4)?,
            report: integer::<u8>("AGENT_REPORT", 0, 1, 0)? == 1,
        })
    }
}

impl Config {
    /// What is trusted; the system's certificates are read when they are first needed.
    pub fn tls(&self) -> io::Result<&Tls> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls);
        }
        let tls = Tls::new(None).map_err(io::Error::other)?;
        Ok(self.tls.get_or_init(|| tls))
    }
}

fn optional(name: &str) -> Result<Option<String>, String> {
    match std::env::var_os(name) {
        None => Ok(None),
        Some(value) if value.is_empty() => Ok(None),
        Some(value) => match value.into_string() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("{name}: is not UTF-8")),
        },
    }
}

fn required(name: &str) -> Result<String, String> {
    optional(name)?.ok_or_else(|| format!("{name}: is required"))
}

fn integer<T>(name: &str, min: T, max: T, default: T) -> Result<T, String>
where
    T: FromStr + Display + PartialOrd,
{
    let Some(value) = optional(name)? else {
        return Ok(default);
    };
    // from_str would take a plus sign
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse() {
        Ok(number) if digits && number >= min && number <= max => Ok(number),
        _ => Err(format!("{name}: must be an integer of {min} to {max}, is '{value}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_json() {
        let tools: serde_json::Value = serde_json::from_str(TOOLS).unwrap();
        assert_eq!(tools[0]["function"]["parameters"]["properties"]["argv"]["minItems"], 1);
        assert_eq!(tools[1]["function"]["name"], "shell");
    }

    #[test]
    fn integers() {
        std::env::set_var("TEST_INTEGER", "");
        assert_eq!(integer("TEST_INTEGER", 1, 100, 7), Ok(7));
        for (text, expected) in [("1", Some(1)), ("100", Some(100)), ("007", Some(7))] {
            std::env::set_var("TEST_INTEGER", text);
            assert_eq!(integer("TEST_INTEGER", 1, 100, 7).ok(), expected);
        }
        for text in ["0", "101", "-1", "+1", " 1", "1 ", "1.0", "x", "99999999999999999999"] {
            std::env::set_var("TEST_INTEGER", text);
            let error = integer("TEST_INTEGER", 1, 100, 7).unwrap_err();
            assert_eq!(error, format!("TEST_INTEGER: must be an integer of 1 to 100, is '{text}'"));
        }
    }
}
