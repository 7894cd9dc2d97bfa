//! A server with users, and requests as one of them.

use crate::{Answer, Server, send};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// The password of every user but the administrator.
pub const PASSWORD: &str = "correct horse";

/// A server with security, and the password of its administrator.
pub struct Secured {
    pub server: Server,
    pub admin: String,
    /// Has the data of the server in `data`.
    pub folder: TempDir,
}

impl Secured {
    /// Starts a server; the first start makes the administrator.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(personas: &[&str], settings: &[&str]) -> Secured {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let settings: Vec<&str> = ["security.enabled=true"].iter().chain(settings).copied().collect();
        let server = Server::start_with(&data, personas, &settings);
        let admin = first_password(&data);
        Secured { server, admin, folder }
    }

    /// As somebody with this `Authorization`.
    ///
    /// # Panics
    /// Without an answer.
    pub fn with(&self, authorization: &str, method: &str, path: &str, body: &Value) -> Answer {
        self.with_as("", authorization, method, path, body)
    }

    /// The same, to the listener of a persona. A body that is a string is sent as it stands.
    ///
    /// # Panics
    /// Without an answer.
    pub fn with_as(&self, persona: &str, authorization: &str, method: &str, path: &str, body: &Value) -> Answer {
        let headers = match authorization {
            "" => vec![],
            given => vec![("authorization".to_owned(), given.to_owned())],
        };
        let text = match body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            body => body.to_string(),
        };
        send(self.server.address(persona), method, path, &headers, text.as_bytes()).expect("an answer")
    }

    /// As a user.
    ///
    /// # Panics
    /// Without an answer.
    pub fn call(&self, user: &str, method: &str, path: &str, body: &Value) -> Answer {
        let password = if user == "admin" { &self.admin } else { PASSWORD };
        self.with(&basic(user, password), method, path, body)
    }

    /// As the administrator; the body of an answer that is a success.
    ///
    /// # Panics
    /// It is none.
    pub fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call("admin", method, path, &body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    }

    /// Makes a user with one role of the same name.
    ///
    /// # Panics
    /// The server refuses it.
    pub fn user(&self, name: &str, role: &Value) {
        self.admin("PUT", &format!("/_security/role/{name}"), role.clone());
        self.admin(
            "PUT",
            &format!("/_security/user/{name}"),
            json!({ "password": PASSWORD, "roles": [name] }),
        );
    }
}

/// The header `Authorization` of a user.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// The password of the user that the first start makes.
///
/// # Panics
/// There is none.
pub fn first_password(data: &Path) -> String {
    let text = std::fs::read_to_string(data.join("first-login")).expect("a first login");
    text.trim().split_once(':').expect("a name and a password").1.to_owned()
}
