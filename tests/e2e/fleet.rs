//! The servers that the cases of one run share, started when the first case needs them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex as AsyncMutex, OnceCell, RwLock};

use crate::kube::{ApiServer, CARETAKERS, Controllers, Etcd};
use crate::machine::Machine;
use crate::servers::Binaries;

/// One kcp serves so many cases. With a hundred and seventy cases on one, its controllers keep a processor and a half busy
/// with the workspaces of the cases that have ended, and the next workspace takes minutes on a small machine.
const CASES_OF_ONE_KCP: usize = 35;

/// Where the consumers' objects live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Workspaces of kcp that bind an APIExport.
    Kcp,
    /// Namespaces of one plain cluster.
    Kube,
    /// Workspaces of an in-memory kcp, synced to an in-memory cluster.
    Sandbox,
}

impl On {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kcp => "kcp",
            Self::Kube => "kube",
            Self::Sandbox => "sandbox",
        }
    }
}

/// All servers of a run.
pub struct Fleet {
    pub machine: Machine,
    kubernetes: OnceCell<Kubernetes>,
    kcp: AsyncMutex<Shared>,
    engines: AtomicUsize,
    /// Read by the cases that share the servers, written by those that stop one.
    pub turn: RwLock<()>,
}

/// The kcp of the cases that begin now.
#[derive(Default)]
struct Shared {
    /// Those that have begun, on this one and those before it.
    cases: usize,
    kcp: Option<Arc<ApiServer>>,
}

/// The plain clusters: one to sync to, one to sync from.
pub struct Kubernetes {
    pub target: ApiServer,
    pub source: ApiServer,
    _controllers: Controllers,
    etcd: Etcd,
}

impl Fleet {
    /// A fleet with nothing started; every file of the run goes below `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            machine: Machine::new(folder),
            kubernetes: OnceCell::new(),
            kcp: AsyncMutex::default(),
            engines: AtomicUsize::new(0),
            turn: RwLock::new(()),
        }
    }

    /// Why the cases on this source cannot run on this machine.
    pub fn missing(&self, on: On) -> Option<String> {
        match on {
            On::Sandbox => None,
            On::Kube => self.machine.lacks_kubernetes(),
            On::Kcp => self.machine.lacks_kcp().or_else(|| self.machine.lacks_kubernetes()),
        }
    }

    /// A number for a case's engine user.
    pub fn next_engine(&self) -> usize {
        self.engines.fetch_add(1, Ordering::Relaxed)
    }

    pub async fn kubernetes(&self) -> &Kubernetes {
        self.kubernetes.get_or_init(|| Kubernetes::start(self.machine.binaries(), &self.machine.folder)).await
    }

    /// The kcp for one case more. A former one ends with the last case that has it.
    pub async fn kcp(&self) -> Arc<ApiServer> {
        let mut shared = self.kcp.lock().await;
        if shared.cases.is_multiple_of(CASES_OF_ONE_KCP) {
            let folder = self.machine.folder.join(format!("kcp-{}", shared.cases));
            shared.kcp = Some(Arc::new(ApiServer::start_kcp(self.machine.kcp(), &folder).await));
        }
        shared.cases += 1;
        shared.kcp.clone().expect("the first case starts one")
    }

    /// A plain cluster that one case may do with as it likes.
    pub async fn own_cluster(&self, name: &str) -> ApiServer {
        let etcd = &self.kubernetes().await.etcd;
        ApiServer::start(self.machine.binaries(), etcd, name, &self.machine.folder).await
    }

    /// The controllers that such a cluster needs to run StatefulSets, and to collect what they leave.
    pub fn controllers(&self, server: &ApiServer) -> Controllers {
        Controllers::start(self.machine.binaries(), server, &format!("{CARETAKERS},statefulset-controller"))
    }

    pub fn kubectl(&self) -> PathBuf {
        self.machine.binaries().named("kubectl")
    }

    /// The client built on client-go's informers.
    pub fn informers(&self) -> PathBuf {
        self.machine.binaries().named("informers")
    }
}

impl Kubernetes {
    async fn start(binaries: &Binaries, folder: &Path) -> Self {
        let etcd = Etcd::start(binaries, folder);
        let (target, source) = tokio::join!(
            ApiServer::start(binaries, &etcd, "target", folder),
            ApiServer::start(binaries, &etcd, "source", folder),
        );
        let controllers = Controllers::start(binaries, &target, CARETAKERS);
        Self { target, source, _controllers: controllers, etcd }
    }
}
