//! A PostgreSQL to compare with: a cluster of its own in a folder, over a Unix socket, every commit durable.

use crate::load::Work;
use crate::say;
use postgres::{Client, NoTls};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs until it is dropped.
pub(crate) struct Postgres {
    child: Child,
    socket: PathBuf,
    user: &'static str,
}

impl Postgres {
    /// None where it is not installed. It refuses to be root: then it runs as the user `postgres`.
    pub(crate) fn start(folder: &Path) -> Option<Postgres> {
        let bin = std::fs::read_dir("/usr/lib/postgresql")
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .filter(|bin| bin.join("initdb").exists())
            .max()?;
        let home = folder.join("postgres");
        std::fs::create_dir(&home).expect("a folder is made");
        // SAFETY: asks for the number of the user, touches nothing.
        let root = unsafe { libc::geteuid() } == 0;
        let program = |name: &str| {
            let mut command = Command::new(if root { Path::new("runuser").into() } else { bin.join(name) });
            if root {
                command.args(["-u", "postgres", "--"]).arg(bin.join(name));
            }
            command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        if root {
            // The way to the folder, and the folder itself, are the other user's too.
            let opened = Command::new("chmod").arg("711").arg(folder).status();
            let owned = Command::new("chown").args(["postgres"]).arg(&home).status();
            if !opened.is_ok_and(|s| s.success()) || !owned.is_ok_and(|s| s.success()) {
                return None;
            }
        }
        let data = home.join("data");
        let made = program("initdb")
            .args(["-U", "postgres", "-A", "trust", "-D"])
            .arg(&data)
            .status();
        if !made.is_ok_and(|s| s.success()) {
            say("initdb failed");
            return None;
        }
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&home)
            .args(["-c", "listen_addresses=", "-c", "shared_buffers=256MB", "-c", "fsync=on"])
            .args(["-c", "synchronous_commit=on"])
            .spawn()
            .ok()?;
        let postgres = Postgres {
            child,
            socket: home,
            user: "postgres",
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while postgres.try_open().is_err() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }

    fn try_open(&self) -> Result<Client, postgres::Error> {
        let socket = self.socket.display();
        Client::connect(&format!("host={socket} user={} dbname=postgres", self.user), NoTls)
    }

    /// A connection.
    pub(crate) fn open(&self) -> Client {
        self.try_open().expect("PostgreSQL accepts")
    }

    /// Statements without an answer.
    pub(crate) fn execute(&self, statements: &str) {
        self.open().batch_execute(statements).expect("PostgreSQL does it");
    }

    /// Three ancestors locked shared and a path exclusive, an update, the end of the transaction: one message.
    pub(crate) fn tree_change(&self, client: usize) -> Work {
        let mut connection = self.open();
        self.execute(&format!("insert into files values ({client}, 0) on conflict do nothing"));
        Box::new(move |n| {
            let leaf = 1_000 + client;
            let text = format!(
                "begin; select pg_advisory_xact_lock_shared(1), pg_advisory_xact_lock_shared(2), \
                 pg_advisory_xact_lock_shared(3), pg_advisory_xact_lock({leaf}); \
                 update files set n = {n} where id = {client}; commit"
            );
            connection.batch_execute(&text).expect("a change");
        })
    }

    /// One counter that all add to: a prepared upsert.
    pub(crate) fn hot_counter(&self) -> Work {
        let mut connection = self.open();
        let text = "insert into counters values (1, 1) on conflict (id) do update set n = counters.n + 1";
        let prepared = connection.prepare(text).expect("a statement");
        Box::new(move |_| {
            connection.execute(&prepared, &[]).expect("a count");
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Of runuser, whose child hears it too.
        let pid = i32::try_from(self.child.id()).unwrap_or(0);
        // SAFETY: a signal to a process that this one started and has not waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}
