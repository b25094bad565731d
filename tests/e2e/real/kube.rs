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

/// A kube-apiserver, or a kcp, that can be stopped and started again with the same address and data.
pub struct ApiServer {
    name: String,
    /// Where it runs, with everything that it reads and keeps.
    pub(super) folder: PathBuf,
    port: u16,
    /// What it runs, and whether it does.
    process: Mutex<(Command, Option<Process>)>,
    kind: Kind,
}

/// What differs from one kind of server to the other.
pub(super) struct Kind {
    /// The groups of administrators and of engines.
    pub groups: [&'static str; 2],
    /// Where it puts its certificate, in its folder.
    pub certificate: &'static str,
    /// What it serves once it is ready.
    pub ready: &'static [&'static str],
}

const KUBERNETES: Kind =
    Kind { groups: ["system:masters", "system:masters"], certificate: "certs/apiserver.crt", ready: &["/readyz"] };

impl ApiServer {
    /// Starts a kube-apiserver called `name` on `etcd`, and waits until it is ready.
    pub async fn start(binaries: &Binaries, etcd: &Etcd, name: &str, folder: &Path) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("the server's folder");
        write_signing_key(&folder);
        let mut command = Command::new(binaries.named("kube-apiserver"));
        command
            .args(["--etcd-servers", &etcd.url(), "--etcd-prefix", &format!("/{name}")])
            .args(["--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "RBAC"])
            .args(["--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"])
            .args(["--service-cluster-ip-range", "10.0.0.0/24", "--profiling=false", "--cert-dir", "certs"]);
        Self::run(name, folder, command, KUBERNETES).await
    }

    /// Runs a server of a kind in its folder, which is there, with what all servers of tests are told, and waits until it is ready.
    pub(super) async fn run(name: &str, folder: PathBuf, mut command: Command, kind: Kind) -> Self {
        write_tokens(&folder.join("tokens.csv"), kind.groups);
        write_policy(&folder, &watched());
        let port = free_port();
        command
            .current_dir(&folder)
            .args(["--secure-port", &port.to_string(), "--bind-address", "127.0.0.1"])
            .args(["--token-auth-file", "tokens.csv", "--audit-policy-file", "audit-policy.yaml"])
            .args(["--audit-log-path", "audit.log", "--audit-log-maxsize", "2000"]);
        let server = Self { name: name.to_owned(), folder, port, process: Mutex::new((command, None)), kind };
        server.resume().await;
        server
    }

    /// Starts the server (again) and waits until it is ready.
    pub async fn resume(&self) {
        {
            let (command, process) = &mut *self.process.lock().expect("the server");
            *process = Some(Process::spawn(&self.name, command, &self.folder.join("server.log")));
        }
        eventually(&format!("{} is ready", self.name), async || {
            self.must_run();
            let rest = self.rest().await?;
            for path in self.kind.ready {
                let answer = rest.look(path).await?;
                answer.is_success().then_some(()).ok_or_else(|| format!("{path}: {answer:?}"))?;
            }
            Ok(())
        })
        .await;
    }

    /// Kills the server; its data stay.
    pub fn kill(&self) {
        self.process.lock().expect("the server").1.take();
    }

    fn must_run(&self) {
        self.process.lock().expect("the server").1.as_mut().expect("it was started just now").must_run();
    }

    pub fn kubeconfig(&self, user: &str) -> String {
        self.kubeconfig_below("", user)
    }

    /// One whose server has this path.
    pub(super) fn kubeconfig_below(&self, path: &str, user: &str) -> String {
        let server = format!("https://127.0.0.1:{}{path}", self.port);
        kubeconfig(&server, &self.folder.join(self.kind.certificate), user)
    }

    /// The server as its administrator sees it; Err before it has a certificate.
    async fn rest(&self) -> Result<Rest, String> {
        match self.folder.join(self.kind.certificate).is_file() {
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
