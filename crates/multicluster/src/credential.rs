//! Who we are to a server: tokens, token files, passwords and exec plugins.
//!
//! kube's own layer runs exec plugins twice and kills none that hangs, never replaces the certificate that one gave, reads token
//! files on the thread that all else runs on, and takes a line end at their end for a part of the token. Client certificates
//! alone are left to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use http::HeaderValue;
use k8s_openapi::jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::directory::Reading;
use super::{exec_plugin, expiry};

/// Kubernetes rotates mounted tokens long before they end; client-go re-reads them each minute as well.
const TOKEN_FILE_AGE: Duration = Duration::from_secs(60);
/// How long a request waits for a token file, once a minute, where there is a token from before.
const TOKEN_FILE_PATIENCE: Duration = Duration::from_secs(1);
/// A plugin's credential is replaced this long before it ends.
const EARLY: Duration = Duration::from_secs(60);
/// A plugin that was run for a refusal is not run for the next one before this, whatever it gave: the admission webhooks of tenants can
/// answer 401 to each write, and all requests wait while it runs. Nor is one that gives what ends at once: by another clock than this
/// machine's, it may not.
const PLUGIN_PAUSE: Duration = Duration::from_secs(10);

/// How requests are authorized.
pub(super) enum Credential {
    /// Nothing, or a client certificate.
    None,
    /// A token, or a user with a password.
    Fixed(HeaderValue),
    /// A token that a file holds.
    TokenFile { path: PathBuf, state: Mutex<FileState> },
    /// What a program gives.
    Exec { plugin: Box<ExecConfig>, state: Mutex<ExecState> },
}

/// What a token file held last, and when it was read; `None`: it is to be read now, before what is known is sent.
#[derive(Default)]
pub(super) struct FileState {
    read: Option<(HeaderValue, Option<Instant>)>,
    reading: Reading<Result<String, String>>,
}

/// What an exec plugin gave last.
#[derive(Default)]
pub(super) struct ExecState {
    given: Option<Given>,
    /// It goes on where whoever began it gives up, and leaves its answer to the next.
    running: JoinSet<Result<exec_plugin::Answer, String>>,
    /// When the plugin was last run for a refusal.
    refused: Option<Instant>,
}

struct Given {
    header: Option<HeaderValue>,
    identity: Option<Arc<Identity>>,
    fresh_until: Option<Instant>,
}

/// A client certificate of an exec plugin.
#[derive(PartialEq, Eq)]
pub(super) struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    /// `user` with this certificate and key.
    pub(super) fn put_into(&self, user: &AuthInfo) -> Result<AuthInfo, String> {
        let user = AuthInfo { client_certificate: None, client_key: None, ..user.clone() };
        let mut user = serde_json::to_value(user).map_err(|e| e.to_string())?;
        user["client-certificate-data"] = json!(BASE64.encode(self.certificate.as_bytes()));
        user["client-key-data"] = json!(BASE64.encode(self.key.as_bytes()));
        serde_json::from_value(user).map_err(|e| e.to_string())
    }
}

impl Credential {
    /// Takes what becomes a header out of a kubeconfig's user, in kubectl's order; certificates stay.
    pub(super) fn take(from: &mut AuthInfo) -> Result<Self, String> {
        let user = from.clone();
        let (username, password, token) = (None, None, None);
        let (token_file, exec, auth_provider) = (None, None, None);
        *from = AuthInfo { username, password, token, token_file, exec, auth_provider, ..std::mem::take(from) };
        if let Some(provider) = &user.auth_provider {
            return Err(format!("auth provider `{}` was removed from Kubernetes: use an exec plugin", provider.name));
        }
        if let (Some(name), Some(password)) = (&user.username, secret(&user, "password")) {
            let pair = BASE64.encode(format!("{name}:{password}").as_bytes());
            return header(&format!("Basic {pair}")).map(Self::Fixed);
        }
        let token = secret(&user, "token").filter(|token| !token.is_empty());
        let token = token.map(|token| header(&format!("Bearer {token}"))).transpose()?;
        if let Some(path) = user.token_file.filter(|path| !path.is_empty()) {
            // The token beside it is of the moment at which somebody wrote the kubeconfig.
            let state = FileState { read: token.map(|token| (token, None)), reading: Reading::default() };
            return Ok(Self::TokenFile { path: path.into(), state: Mutex::new(state) });
        }
        if let Some(token) = token {
            return Ok(Self::Fixed(token));
        }
        match user.exec {
            Some(plugin) => {
                exec_plugin::check(&plugin)?;
                Ok(Self::Exec { plugin: Box::new(plugin), state: Mutex::default() })
            }
            None => Ok(Self::None),
        }
    }

    /// The header to send, and the client certificate of a plugin; the error says why there is no credential.
    pub(super) async fn current(&self) -> Result<(Option<HeaderValue>, Option<Arc<Identity>>), String> {
        match self {
            Self::None => Ok((None, None)),
            Self::Fixed(header) => Ok((Some(header.clone()), None)),
            Self::TokenFile { path, state } => {
                state.lock().await.current(path).await.map(|header| (Some(header), None))
            }
            // Locked while the plugin runs: requests wait for its one answer instead of running it each.
            Self::Exec { plugin, state } => state.lock().await.current(plugin).await,
        }
    }

    /// When the token ends that only somebody else replaces, where it is known and says so. A plugin gives another in time.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        let token = |header: &HeaderValue| expiry::of_token(header.to_str().ok()?.strip_prefix("Bearer ")?);
        match self {
            Self::None | Self::Exec { .. } => None,
            Self::Fixed(header) => token(header),
            Self::TokenFile { state, .. } => token(&state.try_lock().ok()?.read.as_ref()?.0),
        }
    }

    /// A server answered 401 to `sent`. Whether the next [`current`](Self::current) may be another.
    pub(super) fn refused(&self, sent: Option<&HeaderValue>) -> bool {
        match self {
            Self::None | Self::Fixed(_) => false,
            Self::TokenFile { state, .. } => {
                // Not of this refusal's making if another request has read the file since, or reads it.
                if let Ok(mut state) = state.try_lock()
                    && let Some((header, at)) = &mut state.read
                    && Some(&*header) == sent
                {
                    *at = None;
                }
                true
            }
            // Somebody runs the plugin right now: its answer is newer than what was refused.
            Self::Exec { state, .. } => state.try_lock().map_or(true, |mut state| state.refuse(sent)),
        }
    }
}

impl FileState {
    /// The token, re-read each minute. A file that cannot be read any more, or not in time, leaves the last token in use.
    async fn current(&mut self, path: &Path) -> Result<HeaderValue, String> {
        if let Some((header, Some(at))) = self.read.as_ref()
            && at.elapsed() < TOKEN_FILE_AGE
        {
            return Ok(header.clone());
        }
        let to_read = path.to_owned();
        let read = move || std::fs::read_to_string(to_read).map_err(|error| error.to_string());
        let reading = self.reading.of(read);
        let text = match &self.read {
            Some(_) => timeout(TOKEN_FILE_PATIENCE, reading).await.unwrap_or_else(|late| Err(late.to_string())),
            None => reading.await,
        };
        let fresh = match (text.flatten(), &self.read) {
            (Ok(text), _) => header(&format!("Bearer {}", text.trim()))?,
            (Err(_), Some((last, _))) => last.clone(),
            (Err(error), None) => return Err(format!("cannot read the token file {}: {error}", path.display())),
        };
        self.read = Some((fresh.clone(), Some(Instant::now())));
        Ok(fresh)
    }
}

impl ExecState {
    async fn current(&mut self, plugin: &ExecConfig) -> Result<(Option<HeaderValue>, Option<Arc<Identity>>), String> {
        let now = Instant::now();
        if let Some(given) = self.given.as_ref().filter(|given| given.fresh_until.is_none_or(|until| now < until)) {
            return Ok((given.header.clone(), given.identity.clone()));
        }
        if self.running.is_empty() {
            self.running.spawn(exec_plugin::run(plugin.clone()));
        }
        let ended = self.running.join_next().await.ok_or("it was not run")?;
        let answer = ended.map_err(|error| error.to_string())??;
        let header = answer.token.map(|token| header(&format!("Bearer {token}"))).transpose()?;
        let lasts = |at: Timestamp| {
            let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            left.saturating_sub(EARLY).max(PLUGIN_PAUSE)
        };
        let fresh_until = answer.expires.map(|at| Instant::now() + lasts(at));
        let identity = answer.client_certificate_data.zip(answer.client_key_data);
        let identity = identity.map(|(certificate, key)| Arc::new(Identity { certificate, key }));
        self.given = Some(Given { header: header.clone(), identity: identity.clone(), fresh_until });
        Ok((header, identity))
    }

    fn refuse(&mut self, sent: Option<&HeaderValue>) -> bool {
        if self.given.as_ref().is_none_or(|given| given.header.as_ref() != sent) {
            return true;
        }
        if self.refused.is_some_and(|at| at.elapsed() < PLUGIN_PAUSE) {
            return false;
        }
        self.refused = Some(Instant::now());
        self.given = None;
        true
    }
}

fn header(text: &str) -> Result<HeaderValue, String> {
    // The text is a secret: it is not repeated in the error.
    let mut header = HeaderValue::from_str(text).map_err(|_| "the token holds characters that no header can carry")?;
    header.set_sensitive(true);
    Ok(header)
}

/// A secret field, through serde: its type gives it out to nothing else that is a dependency of ours.
fn secret(user: &AuthInfo, field: &str) -> Option<String> {
    let user = serde_json::to_value(user).ok()?;
    user.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that nobody writes to is a file on a mount that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_token_file_that_hangs_leaves_the_last_token_in_use_and_is_read_once_it_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        let token = |text: &str| header(&format!("Bearer {text}")).expect("a header");
        let mut state = FileState { read: Some((token("old"), Some(Instant::now()))), reading: Reading::default() };
        tokio::time::advance(TOKEN_FILE_AGE).await;
        let (while_it_hangs, ()) = tokio::join!(state.current(&path), tokio::time::advance(TOKEN_FILE_PATIENCE));
        assert_eq!(while_it_hangs, Ok(token("old")));
        assert_eq!(state.current(&path).await, Ok(token("old")), "nobody waits again before a minute is over");
        std::fs::write(&path, "new").expect("read by the thread that hangs");
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(state.current(&path).await, Ok(token("new")));
    }

    /// As client-go has it.
    #[tokio::test(start_paused = true)]
    async fn a_token_file_goes_before_the_token_that_stands_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let bearer = async || {
            let mut user = serde_json::from_value(json!({"token": "old", "tokenFile": path})).expect("a user");
            let credential = Credential::take(&mut user).expect("a credential");
            let (bearer, _) = credential.current().await.expect("a token");
            assert!(credential.refused(bearer.as_ref()));
            let (again, _) = credential.current().await.expect("a token");
            assert_eq!(again, bearer, "a file that cannot be read after a refusal leaves it in use");
            bearer
        };
        let header = |text: &str| header(text).expect("a header");
        assert_eq!(bearer().await, Some(header("Bearer old")), "there is no file");
        std::fs::write(&path, "new").expect("written");
        assert_eq!(bearer().await, Some(header("Bearer new")));
    }

    #[tokio::test]
    async fn who_gives_up_on_a_plugin_leaves_its_answer_to_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let (plugin, mut state) = (plugin(folder.path(), r#"{"token": "t"}"#), ExecState::default());
        assert!(timeout(Duration::ZERO, state.current(&plugin)).await.is_err());
        let (bearer, _) = state.current(&plugin).await.expect("an answer");
        assert_eq!(bearer, Some(header("Bearer t").expect("a header")));
        assert_eq!(runs(folder.path()), 1);
    }

    /// The clock of this machine may be ahead.
    #[tokio::test]
    async fn a_plugin_is_not_run_for_each_request_where_its_credential_has_ended_already() {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = r#"{"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}"#;
        let (plugin, mut state) = (plugin(folder.path(), ended), ExecState::default());
        for _ in 0..3 {
            state.current(&plugin).await.expect("an answer");
        }
        assert_eq!(runs(folder.path()), 1);
    }

    /// The plugins of clouds give another token each time.
    #[tokio::test]
    async fn a_plugin_is_not_run_for_each_refusal_where_it_gives_another_token_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let (plugin, mut state) = (plugin(folder.path(), r#"{"token": "'$$'"}"#), ExecState::default());
        let mut given = Vec::new();
        for _ in 0..5 {
            let (bearer, _) = state.current(&plugin).await.expect("an answer");
            state.refuse(bearer.as_ref());
            given.push(bearer);
        }
        assert!(given[0] != given[1] && given[1..].iter().all(|bearer| *bearer == given[1]), "{given:?}");
        assert_eq!(runs(folder.path()), 2);
    }

    /// A plugin that gives this status, and notes in a folder that it ran.
    fn plugin(folder: &Path, status: &str) -> ExecConfig {
        let ran = folder.join("ran");
        let script = format!(r#"echo >> {}; echo '{{"kind": "ExecCredential", "status": {status}}}'"#, ran.display());
        let plugin = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]});
        serde_json::from_value(plugin).expect("a plugin")
    }

    fn runs(folder: &Path) -> usize {
        std::fs::read_to_string(folder.join("ran")).expect("a file").lines().count()
    }
}
