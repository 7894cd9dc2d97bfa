//! `pleach serve`: listens, answers until told to stop, closes the engine. SIGHUP reads the settings again that can change.

use crate::config::{Config, Flags};
use crate::console::say;
use crate::listen::{ListenOn, SocketFile};
use crate::logging::{LEVEL, Logs};
use crate::service_manager::ServiceManager;
use crate::threads;
use crate::tls::TlsFiles;
use crate::wire::wire;
use arc_swap::ArcSwap;
use model::{Error, ErrorKind, Persona, Result};
use rest::{Listener, TlsConfig};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// The time for accepted requests to finish, and again for closing the engine: 3 s together.
const GRACE: Duration = Duration::from_millis(1500);
const CLOSING: Duration = Duration::from_millis(1300);

/// Runs the server until a signal stops it.
///
/// # Errors
/// A configuration, address or data folder that cannot be used.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let mut config = Config::settle(flags)?;
    let open_files = crate::descriptors::raise();
    if let Ok(open_files) = &open_files {
        config.bound_connections(*open_files);
    }
    if flags.print_config {
        say(&config.render());
        return Ok(ExitCode::SUCCESS);
    }
    let logs = Logs::begin(config.log_levels.clone(), config.log_format)?;
    if let Err(cause) = open_files {
        warn!(target: "server", "the limit of open files is unknown ({cause}); [http.max_connections] is not checked against it");
    }
    crate::private::make_files_private();
    let (runtime, long_requests) = (threads::connections()?, threads::long_requests()?);
    let done = runtime.block_on(serve(&config, flags, &logs, long_requests.handle()));
    // A request that outlived its grace must not keep the process.
    long_requests.shutdown_background();
    runtime.shutdown_background();
    done
}

async fn serve(config: &Config, flags: &Flags, logs: &Logs, long_requests: &Handle) -> Result<ExitCode> {
    let manager = match ServiceManager::connect() {
        Ok(manager) => manager.map(Arc::new),
        Err(cause) => {
            warn!(target: "server", "the service manager cannot be told how the server is: {cause}");
            None
        }
    };
    let (tell, stop) = watch::channel(false);
    let tls = match &config.tls {
        Some(files) => Some(Arc::new(ArcSwap::new(files.read()?))),
        None => None,
    };
    // Before anything is written, so that an early signal also ends in order.
    let mut signals = Signals::listen()?;
    // Bound before the engine opens: who connects meanwhile waits instead of being refused.
    let Sockets {
        listeners,
        listening,
        files,
    } = Sockets::bind(config, tls.as_ref()).await?;
    // For what clients are told of the node, a unix socket has no address.
    let address = listening.iter().find_map(|(on, _)| on.address());
    let address = address.map_or_else(|| "127.0.0.1:0".to_owned(), |address| address.to_string());
    let (opening, long_requests) = (config.clone(), long_requests.clone());
    let wired = tokio::task::spawn_blocking(move || wire(&opening, &address, long_requests))
        .await
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("opening the data folder failed: {cause}")))??;
    let first = wired.first_login.as_ref().map(|first| first.tell(&config.data)).transpose()?;
    let serving = tokio::spawn(rest::serve(wired.rest.clone(), listeners, stop, GRACE));
    say(&greeting(config, &listening));
    say(&first.unwrap_or_default());
    for (address, persona) in &listening {
        debug!(target: "server", persona = crate::listen::persona_name(*persona), "listening on {address}");
    }
    if let Some(manager) = &manager {
        manager.ready("serving");
        keep_alive(manager);
    }
    let mut config = config.clone();
    while signals.next().await == Signal::Reload {
        if let Some(manager) = &manager {
            manager.reloading();
        }
        reload(&mut config, flags, logs, tls.as_ref());
        if let Some(manager) = &manager {
            manager.ready("serving");
        }
    }
    if let Some(manager) = &manager {
        manager.stopping();
    }
    info!(target: "server", "stopping");
    let _ = tell.send(true);
    let cut = tokio::select! {
        served = serving => served.map_or(0, |s| s.cut),
        () = signals.stop() => {
            warn!(target: "server", "stopped at once by a second signal; what was acknowledged is on disk");
            return Ok(ExitCode::from(130));
        }
    };
    if cut > 0 {
        warn!(target: "server", "{cut} connections were still busy and were cut");
    }
    drop(files);
    let engine = wired.engine.clone();
    drop(wired);
    close(engine).await;
    Ok(ExitCode::SUCCESS)
}

/// The sockets that the configuration names.
#[derive(Default)]
struct Sockets {
    listeners: Vec<Listener>,
    /// Where they listen, and as whom.
    listening: Vec<(ListenOn, Persona)>,
    /// Files of unix sockets, removed at the end.
    files: Vec<SocketFile>,
}

impl Sockets {
    async fn bind(config: &Config, tls: Option<&TlsConfig>) -> Result<Sockets> {
        let mut out = Sockets::default();
        for (on, persona) in &config.listen {
            let (socket, bound) = on.bind().await?;
            out.files.extend(SocketFile::of(&bound));
            out.listeners.push(Listener {
                socket,
                persona: *persona,
                // A unix socket leaves the machine by no way.
                tls: bound.address().and(tls).cloned(),
            });
            out.listening.push((bound, *persona));
        }
        Ok(out)
    }
}

/// Closes the engine, within its time. Nothing that was acknowledged depends on it.
async fn close(engine: Arc<embedded::EmbeddedEngine>) {
    let closed = tokio::task::spawn_blocking(move || engine.close());
    match tokio::time::timeout(CLOSING, closed).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(cause))) => warn!(
            target: "server",
            "closing the engine failed: {}; the log has everything that was acknowledged",
            cause.reason()
        ),
        Ok(Err(cause)) => {
            warn!(target: "server", "closing the engine failed: {cause}; the log has everything that was acknowledged");
        }
        Err(_) => warn!(target: "server", "closing the engine took too long; the next start reads the rest from the log"),
    }
}

/// The URL of a listener.
fn url(config: &Config, on: &ListenOn) -> String {
    match (on, &config.tls) {
        (ListenOn::Unix(_), _) => on.to_string(),
        (ListenOn::Tcp(_), Some(_)) => format!("https://{on}"),
        (ListenOn::Tcp(_), None) => format!("http://{on}"),
    }
}

/// Where it listens, where its data is, and what to try next.
fn greeting(config: &Config, listening: &[(ListenOn, Persona)]) -> String {
    let mut out = format!("pleach {}\n", env!("BUILD_VERSION"));
    for (on, persona) in listening {
        let persona = crate::listen::persona_name(*persona);
        out.push_str(&format!("listening on {} as {persona}\n", url(config, on)));
    }
    let data = std::fs::canonicalize(&config.data).unwrap_or_else(|_| config.data.clone());
    out.push_str(&format!("data in {}\n", data.display()));
    if let Some(bound) = &config.connections_bounded {
        out.push_str(&format!("{bound}\n"));
    }
    if let Some((on, _)) = listening.first() {
        let url = url(config, on);
        let import_url = if url == "http://127.0.0.1:9200" {
            String::new()
        } else {
            format!(" --url {url}")
        };
        let curl = match on {
            ListenOn::Tcp(_) => format!("curl '{url}"),
            ListenOn::Unix(path) => format!("curl --unix-socket '{}' 'http://localhost", path.display()),
        };
        out.push_str("\ntry next:\n");
        out.push_str(&format!("  {curl}/?pretty'\n"));
        out.push_str(&format!("  pleach import --files .{import_url}\n"));
        out.push_str(&format!("  {curl}/fs/_search?q=contents:readme&_source=path,name&pretty'\n"));
    }
    out
}

/// Reads the settings and certificates again: the levels of the log and the certificates take effect, others are named. What
/// cannot be read changes nothing.
fn reload(config: &mut Config, flags: &Flags, logs: &Logs, tls: Option<&TlsConfig>) {
    let read = Config::settle(flags).and_then(|read| {
        // The files of the start: other names wait for a restart.
        let certificates = config.tls.as_ref().map(TlsFiles::read).transpose()?;
        logs.set_levels(read.log_levels.clone())?;
        if let (Some(tls), Some(certificates)) = (tls, certificates) {
            tls.store(certificates);
        }
        Ok(read)
    });
    match read {
        Ok(read) => {
            let fixed = config.fixed_differences(&read);
            config.log_levels = read.log_levels;
            let and_certificates = if tls.is_some() { ", and so are the certificates" } else { "" };
            info!(target: "server", "the settings were read again: [{LEVEL}] is in effect{and_certificates}");
            if !fixed.is_empty() {
                warn!(target: "server", "[{}] differ from what the server started with: a restart makes them take effect", fixed.join(", "));
            }
        }
        Err(cause) => warn!(target: "server", "the settings were not read again, the old ones stay: {}", cause.reason()),
    }
}

/// Tells the service manager that the runtime makes progress, as often as it wants.
fn keep_alive(manager: &Arc<ServiceManager>) {
    let Some(interval) = manager.watchdog() else { return };
    let manager = manager.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        loop {
            ticks.tick().await;
            manager.alive();
        }
    });
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// SIGINT, SIGTERM.
    Stop,
    /// SIGHUP; it also comes when a terminal is closed.
    Reload,
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |cause: std::io::Error| Error::new(ErrorKind::Internal, format!("listening for signals failed: {cause}"));
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }

    async fn stop(&mut self) {
        while self.next().await != Signal::Stop {}
    }
}
