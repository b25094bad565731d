//! Plain Kubernetes: etcd, kube-apiserver, and the controllers without which nothing is ever finalized.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::audit::{AuditLog, write_policy};
use crate::credentials::{ADMIN, kubeconfig, watched, write_signing_key, write_tokens};
use crate::eventually::eventually;
use crate::process::{Process, free_port};
use crate::rest::Rest;
use crate::servers::Binaries;

/// One etcd, which several API servers can share under prefixes of their own.
pub struct Etcd {
    port: u16,
    _process: Process,
}

impl Etcd {
    pub fn start(binaries: &Binaries, folder: &Path) -> Self {
        let (port, peer_port) = (free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let mut command = Command::new(binaries.etcd());
        command
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--unsafe-no-fsync", "--log-level", "warn"]);
        Self { port, _process: Process::spawn("etcd", &mut command, &folder.join("etcd.log")) }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A kube-apiserver that can be stopped and started again with the same address and data.
pub struct ApiServer {
    name: String,
    binary: PathBuf,
    etcd: String,
    folder: PathBuf,
    port: u16,
    process: Mutex<Option<Process>>,
}

impl ApiServer {
    /// Starts a server called `name` on `etcd` and waits until it is ready.
    pub async fn start(binaries: &Binaries, etcd: &Etcd, name: &str, folder: &Path) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("the server's folder");
        write_tokens(&folder.join("tokens.csv"), "system:masters", "system:masters");
        write_policy(&folder, &watched());
        write_signing_key(&folder);
        let server = Self {
            name: name.to_owned(),
            binary: binaries.named("kube-apiserver"),
            etcd: etcd.url(),
            folder,
            port: free_port(),
            process: Mutex::new(None),
        };
        server.resume().await;
        server
    }

    /// Starts the server (again) and waits until it is ready.
    pub async fn resume(&self) {
        let log = self.folder.join("server.log");
        let process = Process::spawn(&self.name, &mut self.command(), &log);
        *self.process.lock().expect("the server") = Some(process);
        eventually(&format!("{} is ready", self.name), async || {
            self.must_run();
            let answer = self.rest().await?.look("/readyz").await?;
            answer.is_success().then_some(()).ok_or_else(|| format!("{answer:?}"))
        })
        .await;
    }

    /// Kills the server; its data stay.
    pub fn kill(&self) {
        self.process.lock().expect("the server").take();
    }

    fn must_run(&self) {
        self.process.lock().expect("the server").as_mut().expect("it was started just now").must_run();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        let file = |name: &str| self.folder.join(name);
        command
            .args(["--etcd-servers", &self.etcd, "--etcd-prefix", &format!("/{}", self.name)])
            .args(["--secure-port", &self.port.to_string(), "--bind-address", "127.0.0.1"])
            .args(["--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "RBAC"])
            .args(["--service-cluster-ip-range", "10.0.0.0/24", "--profiling=false", "--audit-log-maxsize", "2000"])
            .arg("--cert-dir")
            .arg(file("certs"))
            .arg("--service-account-key-file")
            .arg(file("sa.pub"))
            .arg("--service-account-signing-key-file")
            .arg(file("sa.key"))
            .arg("--token-auth-file")
            .arg(file("tokens.csv"))
            .arg("--audit-policy-file")
            .arg(file("audit-policy.yaml"))
            .arg("--audit-log-path")
            .arg(file("audit.log"));
        command
    }

    pub fn kubeconfig(&self, user: &str) -> String {
        let server = format!("https://127.0.0.1:{}", self.port);
        kubeconfig(&server, &self.folder.join("certs/apiserver.crt"), user)
    }

    /// The server as its administrator sees it; Err before it has a certificate.
    async fn rest(&self) -> Result<Rest, String> {
        match self.folder.join("certs/apiserver.crt").is_file() {
            true => Ok(Rest::of_kubeconfig(&self.kubeconfig(ADMIN)).await),
            false => Err("it has no certificate yet".to_owned()),
        }
    }

    /// The server as its administrator sees it.
    pub async fn admin(&self) -> Rest {
        self.rest().await.expect("a server that was started")
    }

    pub fn audit(&self) -> AuditLog {
        AuditLog::at(self.folder.join("audit.log"))
    }
}

/// The controllers that a cluster needs to finalize namespaces and to collect garbage.
pub const CARETAKERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller";

/// Some of Kubernetes' own controllers.
pub struct Controllers {
    _process: Process,
}

impl Controllers {
    /// Starts those that `names` lists, with commas between them.
    pub fn start(binaries: &Binaries, server: &ApiServer, names: &str) -> Self {
        let kubeconfig = server.folder.join("controllers.kubeconfig");
        fs::write(&kubeconfig, server.kubeconfig(ADMIN)).expect("the controllers' kubeconfig");
        let mut command = Command::new(binaries.named("kube-controller-manager"));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--secure-port", "0", "--leader-elect=false"])
            .args(["--controllers", names]);
        let log = server.folder.join("controllers.log");
        Self { _process: Process::spawn("kube-controller-manager", &mut command, &log) }
    }
}
