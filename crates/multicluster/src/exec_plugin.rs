//! Runs a kubeconfig's exec plugin, with a deadline.
//!
//! The protocol is Kubernetes' `client.authentication.k8s.io`: the plugin reads `KUBERNETES_EXEC_INFO`
//! and prints an `ExecCredential`.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

/// A plugin that has not answered by then is killed.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// What a plugin gave: a token, or a certificate and its key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
    #[serde(skip)]
    pub(super) expires: Option<Timestamp>,
}

/// What can be said without running it.
pub(super) fn check(plugin: &ExecConfig) -> Result<(), String> {
    if plugin.command.as_deref().is_none_or(str::is_empty) {
        return Err("its exec plugin names no command".into());
    }
    if plugin.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err("its exec plugin wants a terminal (`interactiveMode: Always`), and the engine has none".into());
    }
    Ok(())
}

/// Runs the plugin; at most [`DEADLINE`].
pub(super) async fn run(plugin: ExecConfig) -> Result<Answer, String> {
    let answered = async {
        let hint = plugin.install_hint.as_deref().map(|hint| format!(" ({})", hint.trim())).unwrap_or_default();
        let printed = output(command(&plugin)?, DEADLINE).await.map_err(|reason| format!("{reason}{hint}"))?;
        parse(&printed)
    };
    let name = plugin.command.as_deref().unwrap_or_default();
    answered.await.map_err(|reason| format!("exec plugin `{name}`: {reason}"))
}

fn command(plugin: &ExecConfig) -> Result<Command, String> {
    let mut command = Command::new(plugin.command.as_deref().unwrap_or_default());
    command.args(plugin.args.iter().flatten());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let api_version = plugin.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    let mut info = json!({"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": false}});
    if plugin.provide_cluster_info {
        info["spec"]["cluster"] = serde_json::to_value(&plugin.cluster).map_err(|e| e.to_string())?;
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    Ok(command)
}

/// What a command prints, if it ends well and in time. Else it is killed.
pub(crate) async fn output(mut command: Command, deadline: Duration) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let ended = timeout(deadline, child.wait_with_output()).await;
    let ended = ended.map_err(|_| format!("it did not end within {} s", deadline.as_secs()))?;
    let ended = ended.map_err(|error| error.to_string())?;
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let complaint = String::from_utf8_lossy(&ended.stderr);
    let line = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    Err(format!("{}: {}", ended.status, line.chars().take(300).collect::<String>()))
}

fn parse(printed: &[u8]) -> Result<Answer, String> {
    let credential: ExecCredential =
        serde_json::from_slice(printed).map_err(|_| "it did not print an ExecCredential")?;
    let mut answer = credential.status.ok_or("its ExecCredential has no status")?;
    if answer.token.is_none() && (answer.client_certificate_data.is_none() || answer.client_key_data.is_none()) {
        return Err("its ExecCredential holds neither a token nor a certificate with its key".into());
    }
    let expires = answer.expiration_timestamp.take().map(|text| text.parse()).transpose();
    answer.expires = expires.map_err(|_| "its expirationTimestamp is no timestamp")?;
    Ok(answer)
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Answer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_plugin_that_does_not_end_is_killed() {
        for script in ["exec sleep 3600", "exec >&- 2>&-; exec sleep 3600"] {
            let folder = tempfile::tempdir().unwrap();
            let pid = folder.path().join("pid");
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo $$ > {}; {script}", pid.display())]);
            let error = output(command, Duration::from_millis(500)).await.unwrap_err();
            assert_eq!(error, "it did not end within 0 s");
            let process = format!("/proc/{}", std::fs::read_to_string(pid).unwrap().trim());
            let killed = async {
                while std::path::Path::new(&process).exists() {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(30), killed).await.unwrap();
        }
    }

    #[test]
    fn certificates_and_expiry_are_read() {
        let printed = br#"{"kind": "ExecCredential", "status": {"clientCertificateData": "c", "clientKeyData": "k",
            "expirationTimestamp": "2026-11-21T12:00:00Z"}}"#;
        let answer = parse(printed).unwrap();
        let (certificate, key) = (answer.client_certificate_data.as_deref(), answer.client_key_data.as_deref());
        assert_eq!((certificate, key, answer.token), (Some("c"), Some("k"), None));
        assert_eq!(answer.expires.map(|at| at.to_string()).as_deref(), Some("2026-11-21T12:00:00Z"));
        assert!(parse(br#"{"status": {"token": "t", "expirationTimestamp": "soon"}}"#).is_err());
    }
}
