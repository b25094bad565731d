//! Who we are to a server: tokens, token files, passwords and exec plugins.
//!
//! kube's own layer runs exec plugins without a time limit, twice at the start, and does not look
//! again after a 401; client certificates alone are left to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex as StdMutex;
use std::sync::PoisonError;
use std::time::Duration;

use data_encoding::BASE64;
use http::HeaderValue;
use k8s_openapi::jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::exec_plugin;

/// Kubernetes rotates mounted tokens long before they end; client-go re-reads them each minute as well.
const TOKEN_FILE_AGE: Duration = Duration::from_secs(60);
/// A plugin's credential is replaced this long before it ends.
const EARLY: Duration = Duration::from_secs(60);
/// A plugin that gave again what a server had refused is not run for the next refusal before this.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Why there is no credential.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct CredentialError(pub(super) String);

/// How requests are authorized.
pub(super) enum Credential {
    /// Nothing, or a client certificate.
    None,
    Fixed(HeaderValue),
    TokenFile {
        path: PathBuf,
        read: StdMutex<Option<(HeaderValue, Instant)>>,
    },
    Exec {
        plugin: Box<ExecConfig>,
        state: Mutex<ExecState>,
    },
}

/// What an exec plugin gave last.
#[derive(Default)]
pub(super) struct ExecState {
    given: Option<Given>,
    /// The header for whose refusal the plugin was run last, and when.
    refused: Option<(Option<HeaderValue>, Instant)>,
}

struct Given {
    header: Option<HeaderValue>,
    fresh_until: Option<Instant>,
}

/// A client certificate of an exec plugin.
pub(super) struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    /// `user` with this certificate and key.
    pub(super) fn put_into(&self, user: &AuthInfo) -> Result<AuthInfo, String> {
        let mut user = serde_json::to_value(user).map_err(|e| e.to_string())?;
        user["client-certificate-data"] = json!(BASE64.encode(self.certificate.as_bytes()));
        user["client-key-data"] = json!(BASE64.encode(self.key.as_bytes()));
        serde_json::from_value(user).map_err(|e| e.to_string())
    }
}

impl Credential {
    /// Takes what becomes a header out of a kubeconfig's user, in kubectl's order; certificates stay.
    pub(super) fn take(user: &mut AuthInfo) -> Result<Self, String> {
        let taken = std::mem::take(user);
        *user = AuthInfo {
            client_certificate: taken.client_certificate.clone(),
            client_certificate_data: taken.client_certificate_data.clone(),
            client_key: taken.client_key.clone(),
            client_key_data: taken.client_key_data.clone(),
            impersonate: taken.impersonate.clone(),
            impersonate_uid: taken.impersonate_uid.clone(),
            impersonate_groups: taken.impersonate_groups.clone(),
            impersonate_user_extra: taken.impersonate_user_extra.clone(),
            ..AuthInfo::default()
        };
        Self::of(taken)
    }

    fn of(user: AuthInfo) -> Result<Self, String> {
        if let Some(provider) = &user.auth_provider {
            return Err(format!("auth provider `{}` was removed from Kubernetes: use an exec plugin", provider.name));
        }
        if let (Some(name), Some(password)) = (&user.username, secret(&user, "password")) {
            let pair = BASE64.encode(format!("{name}:{password}").as_bytes());
            return header(&format!("Basic {pair}")).map(Self::Fixed);
        }
        if let Some(token) = secret(&user, "token").filter(|token| !token.is_empty()) {
            return header(&format!("Bearer {token}")).map(Self::Fixed);
        }
        if let Some(path) = user.token_file {
            return Ok(Self::TokenFile { path: path.into(), read: StdMutex::default() });
        }
        match user.exec {
            Some(plugin) => {
                exec_plugin::check(&plugin)?;
                Ok(Self::Exec { plugin: Box::new(plugin), state: Mutex::default() })
            }
            None => Ok(Self::None),
        }
    }

    /// The header to send, and a client certificate where a plugin has just given one.
    pub(super) async fn current(&self) -> Result<(Option<HeaderValue>, Option<Identity>), CredentialError> {
        match self {
            Self::None => Ok((None, None)),
            Self::Fixed(header) => Ok((Some(header.clone()), None)),
            Self::TokenFile { path, read } => {
                let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
                token_of_file(path, &mut read).map(|header| (Some(header), None)).map_err(CredentialError)
            }
            Self::Exec { plugin, state } => {
                // Held while the plugin runs: requests wait for its one answer instead of running it each.
                let mut state = state.lock().await;
                state.current(plugin).await.map_err(CredentialError)
            }
        }
    }

    /// A server answered 401 to `sent`. Whether the next [`current`](Self::current) may be another.
    pub(super) fn refused(&self, sent: Option<&HeaderValue>) -> bool {
        match self {
            Self::None | Self::Fixed(_) => false,
            Self::TokenFile { read, .. } => {
                let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
                // Not of this refusal's making if another request has read the file since.
                let same = read.as_ref().map(|(header, _)| header) == sent;
                if same {
                    *read = None;
                }
                true
            }
            // Somebody runs the plugin right now: its answer is newer than what was refused.
            Self::Exec { state, .. } => state.try_lock().map_or(true, |mut state| state.refuse(sent)),
        }
    }
}

impl ExecState {
    async fn current(&mut self, plugin: &ExecConfig) -> Result<(Option<HeaderValue>, Option<Identity>), String> {
        let now = Instant::now();
        if let Some(given) = self.given.as_ref().filter(|given| given.fresh_until.is_none_or(|until| now < until)) {
            return Ok((given.header.clone(), None));
        }
        let answer = Box::pin(exec_plugin::run(plugin)).await?;
        let bearer = answer.token.map(|token| header(&format!("Bearer {token}"))).transpose()?;
        let fresh_until = answer.expires.map(|at| now + remaining(at).saturating_sub(EARLY));
        let identity = answer.certificate.zip(answer.key).map(|(certificate, key)| Identity { certificate, key });
        self.given = Some(Given { header: bearer.clone(), fresh_until });
        Ok((bearer, identity))
    }

    fn refuse(&mut self, sent: Option<&HeaderValue>) -> bool {
        if self.given.as_ref().is_none_or(|given| given.header.as_ref() != sent) {
            return true;
        }
        let known =
            self.refused.as_ref().is_some_and(|(header, at)| header.as_ref() == sent && at.elapsed() < REFUSED_PAUSE);
        if known {
            return false;
        }
        self.refused = Some((sent.cloned(), Instant::now()));
        self.given = None;
        true
    }
}

fn remaining(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
}

/// The token of a file, re-read each minute. A file that cannot be read any more leaves the last token in use.
fn token_of_file(path: &PathBuf, read: &mut Option<(HeaderValue, Instant)>) -> Result<HeaderValue, String> {
    if let Some((header, at)) = read.as_ref()
        && at.elapsed() < TOKEN_FILE_AGE
    {
        return Ok(header.clone());
    }
    let text = std::fs::read_to_string(path);
    let fresh = match (text, read.as_ref()) {
        (Ok(text), _) => header(&format!("Bearer {}", text.trim()))?,
        (Err(_), Some((last, _))) => last.clone(),
        (Err(error), None) => return Err(format!("cannot read the token file {}: {error}", path.display())),
    };
    *read = Some((fresh.clone(), Instant::now()));
    Ok(fresh)
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

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(_) => "Fixed",
            Self::TokenFile { .. } => "TokenFile",
            Self::Exec { .. } => "Exec",
        })
    }
}
