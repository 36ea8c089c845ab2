//! Child processes: started with vfork semantics in a process group of their own, their output
//! read with a cap, ended with their group at a time limit.
//!
//! `std::process` would do for the contract; it resets each of 64 signals in every child and opens
//! /dev/null for it, which costs more than the rest of a start (docs/fairness.md has figures).

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::time::{sleep, Instant};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// How long output is read after the exit, while something else still holds the pipes.
const DRAIN: Duration = Duration::from_millis(100);
/// Between attempts to start while the system is short of processes or descriptors.
const SHORTAGE: Duration = Duration::from_millis(10);
const STACK_SIZE: usize = 32 << 10;
const READ_SIZE: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// The exit status, or 128 + n for death by signal n.
    Exit(i32),
    Timeout,
}

pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub ending: Ending,
}

#[derive(Clone, Copy)]
pub struct Limits {
    pub timeout: Duration,
    /// Bytes kept of stdout and of stderr; the rest is read and dropped.
    pub keep: usize,
}

/// What every child is given.
struct Inheritance {
    null: OwnedFd,
    /// The folders of PATH, each with a slash at its end.
    path: Vec<Vec<u8>>,
    /// Signals that this process ignores.
    ignored: Vec<c_int>,
}

fn inheritance() -> io::Result<&'static Inheritance> {
    static INHERITANCE: OnceLock<Inheritance> = OnceLock::new();
    if let Some(inheritance) = INHERITANCE.get() {
        return Ok(inheritance);
    }
    let null = std::fs::File::open("/dev/null")?.into();
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let path = std::env::split_paths(&path)
        .map(|mut folder| {
            folder.push("");
            folder.into_os_string().into_encoded_bytes()
        })
        .collect();
    let ignored = (1..=64)
        .filter(|&signal| {
            // SAFETY: sigaction only writes to `old`, for which all zeroes is a value.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) } != 0;
            !failed && old.sa_sigaction == libc::SIG_IGN
        })
        .collect();
    // Whatever this program was started with beside the standard streams is not for tools.
    // SAFETY: a flag on descriptors; where the call is not known, nothing happens.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    Ok(INHERITANCE.get_or_init(|| Inheritance { null, path, ignored }))
}

/// What the child needs to become its program. It shares the parent's memory, so everything is
/// laid out before and the child only reads.
struct Plan<'a> {
    candidates: &'a [CString],
    argv: &'a [*const c_char],
    null: RawFd,
    stdout: RawFd,
    stderr: RawFd,
    ignored: &'a [c_int],
}

extern "C" {
    static environ: *const *const c_char;
}

/// The child, from clone to exec: system calls only.
extern "C" fn become_program(plan: *mut c_void) -> c_int {
    // SAFETY: `plan` is the parent's, which waits until this function has exec'ed or exited;
    // every call made here is async-signal-safe.
    unsafe {
        let plan = &*(plan as *const Plan);
        libc::setpgid(0, 0);
        libc::dup2(plan.null, 0);
        libc::dup2(plan.stdout, 1);
        libc::dup2(plan.stderr, 2);
        for &signal in plan.ignored {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        let mut status = 127;
        for candidate in plan.candidates {
            libc::execve(candidate.as_ptr(), plan.argv.as_ptr(), environ);
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => status = 126,
                _ => {
                    status = 126;
                    break;
                }
            }
        }
        libc::_exit(status)
    }
}

/// Where `program` may be: as it is if it is a path, else in the folders of PATH.
fn candidates(program: &CStr, path: &[Vec<u8>]) -> Vec<CString> {
    let program = program.to_bytes();
    let join = |folder: &Vec<u8>| CString::new([folder, program].concat()).ok();
    match program {
        [] => Vec::new(),
        _ if program.contains(&b'/') => CString::new(program).into_iter().collect(),
        _ => path.iter().filter_map(join).collect(),
    }
}

thread_local! {
    /// The stack of a child between clone and exec; this thread sleeps meanwhile.
    static STACK: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(STACK_SIZE));
    /// Where output is read to before it is known how much there is.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(READ_SIZE));
}

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// A pipe: the end that is read, without blocking, and the end for the child.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: pipe2 fills `ends` with two descriptors, which nobody else owns.
    let (read, write) = unsafe {
        checked(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: plain system call on a descriptor of ours.
    checked(unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((read, write))
}

/// A running process. Dropped before its end, its whole group is killed.
pub struct Process {
    pid: libc::pid_t,
    pidfd: AsyncFd<OwnedFd>,
    stdout: Output,
    stderr: Output,
    status: Option<i32>,
}

impl Process {
    /// Start `argv`. A program that cannot be executed is a process that exits with 126 or 127; an
    /// error is a lack of the system's resources.
    pub fn start(argv: &[CString]) -> io::Result<Process> {
        let inheritance = inheritance()?;
        let (stdout, child_stdout) = pipe()?;
        let (stderr, child_stderr) = pipe()?;
        let candidates =
            argv.first().map_or(Vec::new(), |name| candidates(name, &inheritance.path));
        let mut pointers: Vec<*const c_char> = argv.iter().map(|arg| arg.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let plan = Plan {
            candidates: &candidates,
            argv: &pointers,
            null: inheritance.null.as_raw_fd(),
            stdout: child_stdout.as_raw_fd(),
            stderr: child_stderr.as_raw_fd(),
            ignored: &inheritance.ignored,
        };
        let pid = STACK.with_borrow_mut(|stack| {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let plan = &plan as *const Plan as *mut c_void;
            // SAFETY: the stack is this thread's, aligned downwards to 16; CLONE_VFORK keeps this
            // thread asleep until the child no longer uses it, `plan` or this thread's memory.
            checked(unsafe {
                let top = stack.as_mut_ptr().add(stack.capacity());
                let top = top.sub(top as usize % 16) as *mut c_void;
                libc::clone(become_program, top, flags, plan)
            })
        })?;
        // SAFETY: the child is not reaped yet, so `pid` is its; the descriptor is new. (CLONE_PIDFD would
        // save this call, but QEMU's user mode refuses it.)
        let pidfd = match unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }),
        };
        let watched = pidfd
            .and_then(|pidfd| AsyncFd::with_interest(pidfd, Interest::READABLE))
            .and_then(|pidfd| Ok((pidfd, Output::new(stdout)?, Output::new(stderr)?)));
        match watched {
            Ok((pidfd, stdout, stderr)) => Ok(Process { pid, pidfd, stdout, stderr, status: None }),
            Err(error) => {
                kill_group(pid, libc::SIGKILL);
                // SAFETY: waits for a child of ours that was just killed.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(error)
            }
        }
    }

    /// Wait for the end, or bring it about at the time limit.
    pub async fn finish(mut self, limits: Limits) -> Outcome {
        let mut timer = pin!(sleep(limits.timeout));
        let mut stage = Stage::Running;
        let mut timed_out = false;
        std::future::poll_fn(|cx| {
            self.poll_status(cx);
            for output in [&mut self.stdout, &mut self.stderr] {
                output.poll(cx, limits.keep);
            }
            loop {
                let next = self.next_stage(stage);
                if next != stage {
                    stage = next;
                    if stage == Stage::Draining {
                        timer.as_mut().reset(Instant::now() + DRAIN);
                    }
                }
                if stage == Stage::Ended {
                    return Poll::Ready(());
                }
                if stage == Stage::Killed {
                    return Poll::Pending;
                }
                ready!(timer.as_mut().poll(cx));
                stage = match stage {
                    Stage::Running => {
                        timed_out = true;
                        kill_group(self.pid, libc::SIGTERM);
                        timer.as_mut().reset(Instant::now() + GRACE);
                        Stage::Terminated
                    }
                    Stage::Terminated => {
                        kill_group(self.pid, libc::SIGKILL);
                        Stage::Killed
                    }
                    _ => Stage::Ended,
                };
            }
        })
        .await;
        let ending = match self.status {
            Some(status) if !timed_out => Ending::Exit(status),
            _ => Ending::Timeout,
        };
        Outcome {
            stdout: std::mem::take(&mut self.stdout.bytes),
            stderr: std::mem::take(&mut self.stderr.bytes),
            ending,
        }
    }

    /// Where the process is now, given where it was.
    fn next_stage(&self, stage: Stage) -> Stage {
        let closed = self.stdout.is_closed() && self.stderr.is_closed();
        let group_may_live = stage == Stage::Terminated && is_group(self.pid);
        match (self.status, stage) {
            (None, stage) | (Some(_), stage @ Stage::Ended) => stage,
            (Some(_), Stage::Terminated) if group_may_live => stage,
            (Some(_), _) if closed => Stage::Ended,
            (Some(_), _) => Stage::Draining,
        }
    }

    /// Reap the process if it has ended, and read what it left in its pipes.
    fn poll_status(&mut self, cx: &mut Context) {
        while self.status.is_none() {
            let Poll::Ready(Ok(mut guard)) = self.pidfd.poll_read_ready(cx) else {
                return;
            };
            // SAFETY: waitid fills `info`, for which all zeroes is a value.
            let info = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let options = libc::WEXITED | libc::WNOHANG;
                match libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, options) {
                    0 if info.si_pid() == 0 => None,
                    0 if info.si_code == libc::CLD_EXITED => Some(info.si_status()),
                    0 => Some(128 + info.si_status()),
                    _ => Some(126),
                }
            };
            match info {
                Some(status) => self.status = Some(status),
                None => guard.clear_ready(),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            kill_group(self.pid, libc::SIGKILL);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The time limit is ahead.
    Running,
    /// Timed out: the group got SIGTERM, the end of its grace is ahead.
    Terminated,
    /// The group got SIGKILL.
    Killed,
    /// The process has ended, its pipes are still open.
    Draining,
    Ended,
}

fn kill_group(group: libc::pid_t, signal: c_int) {
    // SAFETY: plain system call.
    unsafe { libc::kill(-group, signal) };
}

fn is_group(group: libc::pid_t) -> bool {
    // SAFETY: plain system call.
    unsafe { libc::kill(-group, 0) == 0 }
}

/// One of a process's output streams.
struct Output {
    pipe: Option<AsyncFd<OwnedFd>>,
    bytes: Vec<u8>,
}

impl Output {
    fn new(pipe: OwnedFd) -> io::Result<Output> {
        let pipe = AsyncFd::with_interest(pipe, Interest::READABLE)?;
        Ok(Output { pipe: Some(pipe), bytes: Vec::new() })
    }

    fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Read what there is, keep up to `keep` bytes of it all.
    fn poll(&mut self, cx: &mut Context, keep: usize) {
        SCRATCH.with_borrow_mut(|scratch| {
            while let Some(pipe) = &self.pipe {
                let Poll::Ready(Ok(mut guard)) = pipe.poll_read_ready(cx) else {
                    return;
                };
                if !guard.ready().is_readable() {
                    // Closed and empty: there is no need to read the end.
                    self.pipe = None;
                    return;
                }
                scratch.clear();
                // SAFETY: at most the capacity is read, and only what was read becomes the length.
                let count = unsafe {
                    let buffer = scratch.as_mut_ptr() as *mut c_void;
                    let count = libc::read(pipe.as_raw_fd(), buffer, scratch.capacity());
                    scratch.set_len(count.max(0) as usize);
                    count
                };
                if count > 0 {
                    let room = keep - self.bytes.len();
                    self.bytes.extend_from_slice(&scratch[..scratch.len().min(room)]);
                    if scratch.len() < scratch.capacity() {
                        // All that there was: the next event tells of more.
                        guard.clear_ready();
                    }
                } else if count < 0
                    && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
                {
                    guard.clear_ready();
                } else {
                    self.pipe = None;
                }
            }
        });
    }
}

/// Run a program to its end. `started` is the outcome of the first attempt to start it; while the
/// system is short of processes or descriptors, further ones are made within the time limit.
pub async fn run(started: io::Result<Process>, argv: Vec<CString>, limits: Limits) -> Outcome {
    let give_up = Instant::now() + limits.timeout;
    let mut started = started;
    loop {
        let error = match started {
            Ok(process) => return process.finish(limits).await,
            Err(error) => error,
        };
        let short = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
        if !short.contains(&error.raw_os_error().unwrap_or(0)) || Instant::now() >= give_up {
            let stderr = format!("cannot start a process: {error}").into_bytes();
            return Outcome { stdout: Vec::new(), stderr, ending: Ending::Exit(126) };
        }
        sleep(SHORTAGE).await;
        started = Process::start(&argv);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(argv: &[&str], timeout_ms: u64, keep: usize) -> (String, String, Ending) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let argv: Vec<CString> = argv.iter().map(|arg| CString::new(*arg).unwrap()).collect();
        let limits = Limits { timeout: Duration::from_millis(timeout_ms), keep };
        let outcome = runtime.block_on(async { run(Process::start(&argv), argv, limits).await });
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(outcome.stdout), text(outcome.stderr), outcome.ending)
    }

    fn shell(command: &str) -> (String, String, Ending) {
        run_with(&["/bin/sh", "-c", command], 60_000, 1 << 20)
    }

    #[test]
    fn output_and_status() {
        let got = |out: &str, err: &str, status| (out.into(), err.into(), Ending::Exit(status));
        assert_eq!(run_with(&["echo", "a"], 60_000, 99), got("a\n", "", 0));
        assert_eq!(shell("echo a; echo b >&2; exit 3"), got("a\n", "b\n", 3));
        assert_eq!(shell("kill -9 $$"), got("", "", 137));
        assert_eq!(shell("cat; echo end"), got("end\n", "", 0));
        assert_eq!(run_with(&["no-such-program"], 60_000, 99), got("", "", 127));
        assert_eq!(run_with(&["/no/such"], 60_000, 99), got("", "", 127));
        assert_eq!(run_with(&[""], 60_000, 99), got("", "", 127));
        assert_eq!(run_with(&["/etc/passwd"], 60_000, 99), got("", "", 126));
        assert_eq!(run_with(&["/"], 60_000, 99), got("", "", 126));
    }

    #[test]
    fn both_streams_are_read_at_once_and_capped() {
        let fill = "head -c 300000 /dev/zero | tr '\\0' ";
        let (stdout, stderr, ending) = shell(&format!("{fill} a; {fill} b >&2; {fill} a"));
        assert_eq!((stdout.len(), stderr.len(), ending), (600_000, 300_000, Ending::Exit(0)));
        let argv = ["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' a"];
        let (stdout, _, ending) = run_with(&argv, 60_000, 1000);
        assert_eq!((stdout, ending), ("a".repeat(1000), Ending::Exit(0)));
    }

    #[test]
    fn what_a_child_inherits() {
        let (stdout, _, _) = shell("ls /proc/self/fd | tr '\\n' ' '");
        assert_eq!(stdout, "0 1 2 3 ");
        let (stdout, _, _) = shell("grep -E 'Sig(Blk|Ign)' /proc/self/status");
        for line in stdout.lines() {
            let (_, set) = line.split_once(":\t").unwrap();
            // 32 and 33 are glibc's own: its posix_spawn has children ignore them, nobody can reset them.
            let set = u64::from_str_radix(set, 16).unwrap() & !(3 << 31);
            assert_eq!(set, 0, "{line}");
        }
        let (stdout, _, _) = shell("cut -d' ' -f1,5 /proc/$$/stat");
        let numbers: Vec<&str> = stdout.split_whitespace().collect();
        assert_eq!(numbers[0], numbers[1]);
    }

    #[test]
    fn a_background_child_is_not_waited_for() {
        let (stdout, _, ending) = shell("echo a; sleep 60 & echo $!");
        assert_eq!(ending, Ending::Exit(0));
        let mut lines = stdout.lines();
        assert_eq!(lines.next(), Some("a"));
        let pid: libc::pid_t = lines.next().unwrap().parse().unwrap();
        // SAFETY: plain system call on the process that the test left behind.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    }

    #[test]
    fn the_time_limit_ends_the_group() {
        let argv = |command| ["/bin/sh", "-c", command];
        let (stdout, _, ending) = run_with(&argv("echo a; sleep 60"), 50, 99);
        assert_eq!((stdout.as_str(), ending), ("a\n", Ending::Timeout));
        // SIGTERM may be ignored, SIGKILL not
        let stubborn = "trap '' TERM; echo $$; while :; do sleep 60; done";
        let (stdout, _, ending) = run_with(&argv(stubborn), 50, 99);
        assert_eq!(ending, Ending::Timeout);
        assert!(is_gone(stdout.trim()));
        // nor by a child whose parent is gone
        let orphan =
            "(trap '' TERM; exec >/dev/null 2>&1; while :; do sleep 60; done) & echo $$; wait";
        let (stdout, _, ending) = run_with(&argv(orphan), 50, 99);
        assert_eq!(ending, Ending::Timeout);
        assert!(is_gone(stdout.trim()));
    }

    /// Soon: whoever inherits the dead has to reap them first.
    fn is_gone(group: &str) -> bool {
        let group: libc::pid_t = group.parse().unwrap();
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            !is_group(group)
        })
    }

    #[test]
    fn a_dropped_process_is_killed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pid = runtime.block_on(async {
            let argv = [c"/bin/sleep".to_owned(), c"60".to_owned()];
            Process::start(&argv).unwrap().pid
        });
        let mut status = 0;
        // SAFETY: waits for the child that the drop has killed.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
    }

    #[test]
    fn programs_are_looked_up() {
        let path = [b"/a/".to_vec(), b"/b/".to_vec()];
        let found = |program: &CStr| candidates(program, &path);
        assert_eq!(found(c"x"), [c"/a/x".to_owned(), c"/b/x".to_owned()]);
        assert_eq!(found(c"./x"), [c"./x".to_owned()]);
        assert!(found(c"").is_empty());
    }
}
