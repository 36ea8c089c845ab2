//! The agent of agent/CONTRACT.md on tokio and hyper.

mod answer;
mod config;
mod history;
mod http;
mod process;
mod report;
mod retry;
mod session;
mod sse;
mod text;
mod tool;

use std::future::{poll_fn, Future};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{exit, ExitCode};
use std::task::Poll;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::runtime::Builder;

use crate::config::Config;

const USAGE: &str = "usage: agent-rust [--beliefs] [mt|st]: tokio's multi-threaded (default) or \
    current-thread runtime; --beliefs prints what it believes of the machine";

fn fail(message: &str, status: i32) -> ! {
    eprintln!("agent-rust: {message}");
    exit(status);
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let mut words: Vec<_> = arguments.iter().map(|a| a.to_str()).collect();
    let only_beliefs = words.first() == Some(&Some("--beliefs"));
    words.drain(..usize::from(only_beliefs));
    let mut builder = match words[..] {
        [] | [Some("mt")] => Builder::new_multi_thread(),
        [Some("st")] => Builder::new_current_thread(),
        [Some("--version")] => {
            println!("agent-rust {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        [Some("--help")] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => fail(USAGE, 2),
    };
    if only_beliefs {
        print_beliefs(builder);
        return ExitCode::SUCCESS;
    }
    let config = match Config::from_environment() {
        Ok(config) => &*Box::leak(Box::new(config)),
        Err(message) => fail(&message, 2),
    };
    raise_descriptor_limit();
    let signals = block_signals().unwrap_or_else(|error| fail(&format!("no signals: {error}"), 1));
    let runtime = builder
        .enable_all()
        .build()
        .unwrap_or_else(|error| fail(&format!("no runtime: {error}"), 1));
    let all_well = match runtime.block_on(run(config, signals)) {
        Ended::Sessions { all_well } => all_well,
        Ended::Signal(signal) => {
            // Drops the sessions, which kills what they run.
            runtime.shutdown_timeout(Duration::from_secs(1));
            exit(128 + signal);
        }
    };
    report::done();
    wait_at_barrier();
    exit(if all_well { 0 } else { 1 })
}

/// What the program makes of the limits it runs under (docs/method.md, Fair play). It has no opinion of memory.
fn print_beliefs(mut builder: Builder) {
    let _runtime = builder.build().unwrap_or_else(|error| fail(&format!("no runtime: {error}"), 1));
    let json = |number: Option<usize>| number.map_or("null".to_owned(), |n| n.to_string());
    let cpus = std::thread::available_parallelism().map(|n| n.get());
    let threads = std::fs::read_dir("/proc/self/task").map(|tasks| tasks.count());
    println!(
        r#"{{"cpus":{},"memory_bytes":null,"heap_limit_bytes":null,"threads":{}}}"#,
        json(cpus.ok()),
        json(threads.ok()),
    );
}

enum Ended {
    Sessions { all_well: bool },
    Signal(i32),
}

/// All sessions to their end, or to a signal.
async fn run(config: &'static Config, signals: OwnedFd) -> Ended {
    let signals = AsyncFd::with_interest(signals, Interest::READABLE)
        .unwrap_or_else(|error| fail(&format!("no signals: {error}"), 1));
    let sessions: Vec<_> =
        (1..=config.sessions).map(|number| tokio::spawn(session::run(config, number))).collect();
    let ended = async {
        let mut all_well = true;
        for session in sessions {
            all_well &= session.await.is_ok_and(|well| well);
        }
        Ended::Sessions { all_well }
    };
    let mut ended = std::pin::pin!(ended);
    poll_fn(|cx| {
        if signals.poll_read_ready(cx).is_ready() {
            return Poll::Ready(Ended::Signal(read_signal(signals.get_ref())));
        }
        ended.as_mut().poll(cx)
    })
    .await
}

const ENDING_SIGNALS: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGINT];

fn ending_signals() -> libc::sigset_t {
    // SAFETY: all zeroes is a value of a signal set, which sigemptyset and sigaddset then fill.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in ENDING_SIGNALS {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Have the signals that end this program read from a descriptor. There is no handler that could
/// run in a child before its exec.
fn block_signals() -> io::Result<OwnedFd> {
    let set = ending_signals();
    // SAFETY: signalfd returns a new descriptor.
    unsafe {
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

fn read_signal(signals: &OwnedFd) -> i32 {
    // SAFETY: read fills `info`, for which all zeroes is a value.
    let info = unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let buffer = &mut info as *mut libc::signalfd_siginfo as *mut libc::c_void;
        libc::read(signals.as_raw_fd(), buffer, std::mem::size_of_val(&info));
        info
    };
    match info.ssi_signo {
        0 => libc::SIGTERM,
        signal => signal as i32,
    }
}

/// Wait for the end of stdin; meanwhile signals end the program as they do by default.
fn wait_at_barrier() {
    let set = ending_signals();
    // SAFETY: plain system call.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
    let mut bytes = [0; 512];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut bytes) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
}

/// Room for a socket of each session and three descriptors of each tool, as far as is allowed.
fn raise_descriptor_limit() {
    // SAFETY: plain system calls on a local variable.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max
        {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
