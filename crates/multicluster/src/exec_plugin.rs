//! Runs a kubeconfig's exec plugin, with a deadline.
//!
//! The protocol is Kubernetes' `client.authentication.k8s.io`: the plugin reads `KUBERNETES_EXEC_INFO`
//! and prints an `ExecCredential`.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinHandle;

/// A plugin that has not answered by then is killed.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// What a plugin gave: a token, or a certificate and its key.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) token: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
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

/// Runs the plugin on a thread of its own; at most [`DEADLINE`]. Whoever no longer waits for it leaves the answer to the next.
pub(super) fn run(plugin: &ExecConfig) -> Result<JoinHandle<Result<Answer, String>>, String> {
    let name = plugin.command.clone().unwrap_or_default();
    let command = command(plugin)?;
    let hint = plugin.install_hint.clone().map(|hint| format!(" ({})", hint.trim())).unwrap_or_default();
    Ok(tokio::task::spawn_blocking(move || {
        let printed = output(command, DEADLINE).map_err(|reason| format!("exec plugin `{name}`: {reason}{hint}"))?;
        parse(&printed).map_err(|reason| format!("exec plugin `{name}`: {reason}"))
    }))
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
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// What a command prints, if it ends well and in time.
pub(crate) fn output(mut command: Command, deadline: Duration) -> Result<Vec<u8>, String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let stdout = read_to_end(child.stdout.take());
    let stderr = read_to_end(child.stderr.take());
    let Ok(printed) = stdout.recv_timeout(deadline) else {
        kill(&mut child);
        return Err(format!("no answer within {} s", deadline.as_secs()));
    };
    // It may go on after it has closed its output.
    let Some(status) = ended(&mut child, deadline)? else {
        kill(&mut child);
        return Err(format!("it did not end within {} s", deadline.as_secs()));
    };
    if status.success() {
        return Ok(printed);
    }
    let complaint = stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    let line = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    Err(format!("{status}: {}", line.chars().take(300).collect::<String>()))
}

/// How a command ended, if it does in time.
fn ended(child: &mut Child, deadline: Duration) -> Result<Option<ExitStatus>, String> {
    let until = Instant::now() + deadline;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            status => return Ok(status),
        }
    }
}

/// Reads a pipe on a thread of its own, which ends with the pipe.
fn read_to_end(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe ends the reading as its end does: what came counts.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody waits any more after the deadline.
        let _ = send.send(bytes);
    });
    receive
}

fn kill(child: &mut Child) {
    // It may have ended by itself in the meantime; either way it is collected.
    let _ = child.kill();
    let _ = child.wait();
}

fn parse(printed: &[u8]) -> Result<Answer, String> {
    let credential: ExecCredential =
        serde_json::from_slice(printed).map_err(|_| "it did not print an ExecCredential")?;
    let status = credential.status.ok_or("its ExecCredential has no status")?;
    if status.token.is_none() && (status.client_certificate_data.is_none() || status.client_key_data.is_none()) {
        return Err("its ExecCredential holds neither a token nor a certificate with its key".into());
    }
    let expires = status.expiration_timestamp.map(|text| text.parse()).transpose();
    Ok(Answer {
        token: status.token,
        certificate: status.client_certificate_data,
        key: status.client_key_data,
        expires: expires.map_err(|_| "its expirationTimestamp is no timestamp")?,
    })
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_does_not_answer_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("3600").stdout(Stdio::piped()).stderr(Stdio::piped());
        let error = output(command, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error, "no answer within 0 s");
    }

    #[test]
    fn a_plugin_that_closes_its_output_and_goes_on_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec >&- 2>&-; exec sleep 3600"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let error = output(command, Duration::from_millis(500)).unwrap_err();
        assert_eq!(error, "it did not end within 0 s");
    }

    #[test]
    fn certificates_and_expiry_are_read() {
        let printed = br#"{"kind": "ExecCredential", "status": {"clientCertificateData": "c", "clientKeyData": "k",
            "expirationTimestamp": "2026-11-21T12:00:00Z"}}"#;
        let answer = parse(printed).unwrap();
        assert_eq!((answer.certificate.as_deref(), answer.key.as_deref(), answer.token), (Some("c"), Some("k"), None));
        assert_eq!(answer.expires.map(|at| at.to_string()).as_deref(), Some("2026-11-21T12:00:00Z"));
        assert!(parse(br#"{"status": {"token": "t", "expirationTimestamp": "soon"}}"#).is_err());
    }
}
