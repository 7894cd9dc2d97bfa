//! `pleach lock run -- COMMAND`: holds a lock while a command runs, so that two machines never run it at once.
//!
//! The lease is renewed at each third of its time. If it is lost, or the server has not answered for so long that it may be, the
//! command is ended before the lease is over. The command learns its fencing token from `PLEACH_FENCING_TOKEN`.
//! Not here: what a lock is (docs/relations/locks.md).

use crate::client::{Answer, Client, JSON, segment};
use crate::console::complain;
use crate::server_flags::ServerFlags;
use model::{Error, ErrorKind, Result, units};
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The lock was not free in time.
const NOT_FREE: u8 = 75;
/// The lock was lost, and the command was ended.
const LOST: u8 = 76;
/// How often the command and the lease are looked at.
const TICK: Duration = Duration::from_millis(20);

/// The commands of `lock`.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum LockCommand {
    /// Run a command while this machine holds a lock.
    Run(RunFlags),
}

/// The flags of `lock run`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "The exit code is that of the command, 128 and the signal if a signal ended it, 75 if the lock was not free in time, \
                  76 if it was lost and the command was ended, 1 if the server refused or could not be reached, 2 if a flag cannot be read.\n\n\
                  The command finds PLEACH_LOCK_ID and PLEACH_FENCING_TOKEN in its environment."
)]
pub(crate) struct RunFlags {
    /// Name of the lock; may be repeated, then all of them are held or none.
    #[arg(long, value_name = "NAME", required = true)]
    name: Vec<String>,
    /// How long to wait for it [default: not at all].
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true)]
    timeout: String,
    /// Time after which the lock ends without a renewal.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    keep_alive: String,
    /// Time between SIGTERM and SIGKILL for a command whose lock is lost.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    grace: String,
    /// Who holds the lock, for people [default: the host and the process].
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    #[command(flatten)]
    server: ServerFlags,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs a command of `lock`.
///
/// # Errors
/// A server that cannot be reached or refuses; a command that cannot be started.
pub(crate) fn run(command: &LockCommand) -> Result<ExitCode> {
    let LockCommand::Run(flags) = command;
    let keep_alive = units::parse_duration(&flags.keep_alive, "--keep-alive")?;
    let grace = units::parse_duration(&flags.grace, "--grace")?;
    let timeout = units::parse_duration(&flags.timeout, "--timeout")?;
    let mut client = flags.server.client()?;
    let asked = Instant::now();
    let answer = ask(&mut client, flags, timeout)?;
    let lease = match answer.status {
        201 => Lease::read(&answer, keep_alive, asked)?,
        409 => {
            complain(reason(&answer));
            return Ok(ExitCode::from(NOT_FREE));
        }
        _ => return Err(refusal(&answer)),
    };
    let mut held = Held::begin(lease, client, flags.server.client()?)?;
    let mut child = match start(flags, &held.lease) {
        Ok(child) => child,
        Err(error) => {
            held.release();
            return Err(error);
        }
    };
    let ended = wait(&mut child, &held, grace);
    held.release();
    if ended.as_ref().is_ok_and(|ended| ended.lost) {
        complain("the lock was lost and the command was ended");
        return Ok(ExitCode::from(LOST));
    }
    let status = ended?.status;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Asks for the lock until it is there or the time is over. A server waits at most so long for one request, which is less than
/// a client waits for an answer.
fn ask(client: &mut Client, flags: &RunFlags, timeout: Duration) -> Result<Answer> {
    const ONCE_MOST: Duration = Duration::from_secs(60);
    let until = Instant::now() + timeout;
    let owner = flags.owner.clone().unwrap_or_else(own_name);
    let targets: Vec<Value> = flags.name.iter().map(|name| json!({ "name": name })).collect();
    let body = json!({ "owner": owner, "keep_alive": flags.keep_alive, "targets": targets }).to_string();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let path = format!("/_lock?timeout={}ms", left.min(ONCE_MOST).as_millis());
        let answer = client.send_once("POST", &path, JSON, body.as_bytes())?;
        if answer.status != 409 || left <= ONCE_MOST {
            return Ok(answer);
        }
    }
}

/// The host and the process.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// A lock as the server granted it.
#[derive(Clone, Debug)]
struct Lease {
    id: String,
    fencing_token: u64,
    keep_alive: Duration,
    /// It lives at least so long after this.
    renewed: Instant,
}

impl Lease {
    fn read(answer: &Answer, keep_alive: Duration, asked: Instant) -> Result<Lease> {
        let (id, token) = (answer.body["id"].as_str(), answer.body["fencing_token"].as_u64());
        let (Some(id), Some(fencing_token)) = (id, token) else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("the server granted no lock: {}", answer.body),
            ));
        };
        let lives = answer.body["expires_in_millis"]
            .as_u64()
            .map_or(keep_alive, Duration::from_millis);
        Ok(Lease {
            id: id.to_owned(),
            fencing_token,
            // A request that waited was granted later than it was asked.
            renewed: Instant::now().checked_sub(keep_alive.saturating_sub(lives)).unwrap_or(asked),
            keep_alive,
        })
    }
}

/// A lock that is renewed by a thread.
#[derive(Debug)]
struct Held {
    lease: Lease,
    client: Client,
    renewals: Arc<Renewals>,
    renewing: Option<std::thread::JoinHandle<()>>,
}

/// The state shared by the thread that renews and the one that waits for the command.
#[derive(Debug)]
struct Renewals {
    /// When the last request that renewed the lock was sent.
    sent: Mutex<Instant>,
    /// The server said that the lock is over.
    lost: AtomicBool,
    /// The command has ended.
    over: AtomicBool,
    /// So long after `sent` the lock may be over soon. What is left is for ending the command.
    good_for: Duration,
}

impl Renewals {
    fn last_sent(&self) -> Instant {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Said to be over, or perhaps over soon, whatever the thread that renews waits for.
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) || self.last_sent().elapsed() >= self.good_for
    }
}

impl Held {
    fn begin(lease: Lease, client: Client, renewing: Client) -> Result<Held> {
        let renewals = Arc::new(Renewals {
            sent: Mutex::new(lease.renewed),
            lost: AtomicBool::new(false),
            over: AtomicBool::new(false),
            good_for: lease.keep_alive - lease.keep_alive / 3,
        });
        let (told, renewed) = (renewals.clone(), lease.clone());
        let renewing = std::thread::Builder::new()
            .name("renew".into())
            .spawn(move || renew(&told, &renewed, renewing));
        let renewing = renewing.map_err(|cause| Error::new(ErrorKind::Internal, format!("starting a thread failed: {cause}")))?;
        Ok(Held {
            lease,
            client,
            renewals,
            renewing: Some(renewing),
        })
    }

    /// Gives the lock back. One that cannot be given back ends by itself.
    fn release(&mut self) {
        let is_lost = self.renewals.is_lost();
        self.renewals.over.store(true, Ordering::Release);
        if let Some(renewing) = self.renewing.take() {
            renewing.thread().unpark();
        }
        if !is_lost {
            let path = format!("/_lock/{}", segment(&self.lease.id));
            if let Err(error) = self.client.send("DELETE", &path, JSON, b"") {
                complain(error.reason());
            }
        }
    }
}

/// Renews at each third of the time, until the command has ended or the server says that the lock is over.
fn renew(renewals: &Renewals, lease: &Lease, mut client: Client) {
    let path = format!("/_lock/{}/_renew", segment(&lease.id));
    let third = lease.keep_alive / 3;
    client.set_patience(third);
    let mut wait = third;
    loop {
        std::thread::park_timeout(wait.min(Duration::from_secs(3600)));
        if renewals.over.load(Ordering::Acquire) {
            return;
        }
        let sent = Instant::now();
        wait = match client.send("POST", &path, JSON, b"") {
            Ok(answer) if answer.status == 200 => {
                *renewals.sent.lock().unwrap_or_else(PoisonError::into_inner) = sent;
                third
            }
            Ok(answer) if matches!(answer.status, 404 | 409) => {
                complain(reason(&answer));
                renewals.lost.store(true, Ordering::Release);
                return;
            }
            // Busy, or gone for a moment.
            _ => third.min(Duration::from_millis(100)),
        };
    }
}

fn start(flags: &RunFlags, lease: &Lease) -> Result<Child> {
    let (program, arguments) = flags
        .command
        .split_first()
        .ok_or_else(|| Error::illegal("give a command behind --"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PLEACH_LOCK_ID", &lease.id)
        .env("PLEACH_FENCING_TOKEN", lease.fencing_token.to_string());
    // A group of its own is ended with all its children; at a terminal it could not read.
    if !std::io::stdin().is_terminal() {
        command.process_group(0);
    }
    // SAFETY: between fork and exec only `prctl` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            // Who holds the lock is killed: nobody would renew it.
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command
        .spawn()
        .map_err(|cause| Error::illegal(format!("[{program}] cannot be started: {cause}")))
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    status: std::process::ExitStatus,
    /// It was told to end, because its lock is lost.
    lost: bool,
}

/// Waits for the command; passes signals on; ends it when the lock is lost.
fn wait(child: &mut Child, held: &Held, grace: Duration) -> Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("starting a runtime failed: {cause}")))?;
    let failed = |cause: std::io::Error| Error::new(ErrorKind::Internal, format!("waiting for the command failed: {cause}"));
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut tick = tokio::time::interval(TICK);
        let mut told: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = terminate.recv() => send(child, libc::SIGTERM),
                _ = interrupt.recv() => send(child, libc::SIGINT),
                _ = tick.tick() => {}
            }
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(Ended {
                    status,
                    lost: told.is_some(),
                });
            }
            if told.is_some() || held.renewals.is_lost() {
                match told {
                    None => {
                        if !held.renewals.lost.load(Ordering::Acquire) {
                            complain("the server does not answer, and the lock may be over soon");
                        }
                        told = Some(Instant::now());
                        send(child, libc::SIGTERM);
                    }
                    Some(at) if at.elapsed() >= grace => send(child, libc::SIGKILL),
                    Some(_) => {}
                }
            }
        }
    })
}

/// To the command and, where it has a group of its own, to its children.
fn send(child: &Child, signal: i32) {
    let Ok(pid) = i32::try_from(child.id()) else { return };
    // SAFETY: these calls touch no memory of this process.
    unsafe {
        let target = if libc::getpgid(pid) == pid { -pid } else { pid };
        libc::kill(target, signal);
    }
}

fn reason(answer: &Answer) -> &str {
    answer.reason().unwrap_or("the server refused")
}

fn refusal(answer: &Answer) -> Error {
    Error::illegal(format!("answered {}: {}", answer.status, reason(answer)))
}
