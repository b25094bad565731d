//! Who may ask for what: a bearer token for whoever started the server, and one for each workspace.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::request::{Endpoint, Place, Request, Route};
use super::state::State;
use super::status::Failure;

/// Who sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum User {
    /// Whoever started the server: everything.
    #[default]
    Administrator,
    /// A workspace by its path: what is in it and in those below it, and the virtual workspaces of its exports.
    Workspace(Arc<str>),
}

/// The tokens given out, and whom they stand for.
pub(super) struct Tokens {
    /// Nobody else can guess a token without it.
    secret: [u8; 32],
    administrator: String,
    users: Mutex<HashMap<String, User>>,
}

impl Tokens {
    /// Draws a secret from the system.
    pub fn draw() -> io::Result<Tokens> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let mut tokens = Tokens { secret, administrator: String::new(), users: Mutex::default() };
        tokens.administrator = tokens.of(User::Administrator);
        Ok(tokens)
    }

    pub fn administrator(&self) -> &str {
        &self.administrator
    }

    /// The token of a user, the same each time.
    pub fn of(&self, user: User) -> String {
        let digest = Sha256::new().chain_update(self.secret).chain_update(user.to_string()).finalize();
        let token = format!("sandbox-{}", &HEXLOWER.encode(&digest)[..40]);
        self.users.lock().insert(token.clone(), user);
        token
    }

    /// Takes a token that somebody else drew.
    pub fn accept(&self, token: &str, user: User) {
        self.users.lock().insert(token.to_owned(), user);
    }

    /// The user that a header `Authorization` proves: `Bearer <token>`.
    pub fn user(&self, authorization: &str) -> Option<User> {
        let (scheme, token) = authorization.split_once(' ')?;
        let users = self.users.lock();
        users.get(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer")).cloned()
    }
}

impl State {
    /// Refuses what the user of a request may not ask for. The version is everybody's.
    pub(super) fn authorize(&self, request: &Request, route: &Route) -> Result<(), Failure> {
        let User::Workspace(path) = &request.user else { return Ok(()) };
        let place = match &route.place {
            Place::Virtual { provider, .. } => &Place::Cluster(provider.clone()),
            place => place,
        };
        let reached = self.cluster_at(place).map(|cluster| self.path_of(&cluster)).unwrap_or_default();
        let is_within = reached.strip_prefix(&**path).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        match is_within || matches!(route.endpoint, Endpoint::Health | Endpoint::Version) {
            true => Ok(()),
            false => Err(denied(request, route)),
        }
    }
}

/// As an API server words it whose authorizer says `access denied`.
fn denied(request: &Request, route: &Route) -> Failure {
    let user = request.user.to_string();
    let Endpoint::Resource(path) = &route.endpoint else {
        let (verb, path) = (request.method.as_str().to_ascii_lowercase(), below_cluster(&request.path));
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}: access denied");
        return Failure::status(403, "Forbidden", message);
    };
    Failure::access_denied(&user, request.verb(path.name.is_some()), path)
}

/// What follows `/clusters/<name>` in a path.
fn below_cluster(path: &str) -> &str {
    let rest = path.split_once("/clusters/").and_then(|(_, rest)| rest.find('/').map(|end| &rest[end..]));
    rest.unwrap_or(path)
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Administrator => f.write_str("administrator"),
            User::Workspace(path) => f.write_str(path),
        }
    }
}
