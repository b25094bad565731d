//! In-memory servers in the place of real ones: a case has its own pair, started in no time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_engine::sandbox::{Call, Exchange, Failure, Fault, Options, Sandbox, Verb};
use tokio::sync::oneshot;

use crate::audit::{AuditLog, Request};
use crate::kcp::Workspace;
use crate::rest::Rest;

/// What the engine calls itself; the sandbox knows no users.
const ENGINE: &str = "sync-engine/";

/// How long a request takes that is slow: a slow machine, too, does something else meanwhile.
pub const LATE: Duration = Duration::from_secs(20);

/// A kcp and a target.
pub struct Memory {
    kcp: Sandbox,
    target: Sandbox,
    pub target_kubeconfig: String,
    pub source_audit: AuditLog,
    pub target_audit: AuditLog,
}

impl Memory {
    /// Starts both, the kcp with two shards; their requests are told as those of `user` where an engine sends them.
    pub async fn start(user: &str) -> Self {
        let kcp = Options::kcp().seed("kcp").shards(2).start().await.expect("an in-memory kcp");
        let target = Options::kubernetes().seed("target").start().await.expect("an in-memory cluster");
        let began = Instant::now();
        Self {
            source_audit: audited(&kcp, user, began),
            target_audit: audited(&target, user, began),
            target_kubeconfig: target.kubeconfig(None),
            kcp,
            target,
        }
    }

    /// The target as its administrator sees it.
    pub async fn target(&self) -> Rest {
        Rest::of_kubeconfig(&self.target_kubeconfig).await
    }

    pub fn source_kubeconfig(&self) -> String {
        self.kcp.kubeconfig(Some("root"))
    }

    /// The workspace `root` as its administrator sees it.
    pub async fn root(&self) -> Rest {
        Rest::of_kubeconfig(&self.kcp.kubeconfig(None)).await.below("/clusters/root")
    }

    /// The next object that is applied in a namespace of the target takes [`LATE`]. Resolves once that has begun.
    pub fn delay_next_apply(&self, namespace: &str) -> impl Future<Output = ()> + use<> {
        let namespace = namespace.to_owned();
        let (begins, begun) = oneshot::channel();
        let mut begins = Some(begins);
        self.target.faults().inject(move |call| {
            let begins = begins.take_if(|_| call.verb == Verb::Apply && call.namespace == namespace)?;
            begins.send(()).ok().map(|()| Fault::Delay(LATE))
        });
        async move { begun.await.expect("the server runs") }
    }

    /// Every request of this kind for this object of the target goes wrong.
    pub fn fault(&self, verb: Verb, resource: &str, name: &str, fault: Fault) {
        let (resource, name) = (resource.to_owned(), name.to_owned());
        let matches = move |call: &Call| call.verb == verb && call.resource == resource && call.name == name;
        self.target.faults().inject(move |call| matches(call).then(|| fault.clone()));
    }

    /// Every change of the objects of this name is refused where their consumers are.
    pub fn refuse_changes(&self, name: &str, refusal: Failure) {
        let name = name.to_owned();
        let matches = move |call: &Call| call.verb == Verb::Patch && call.name == name;
        self.kcp.faults().inject(move |call| matches(call).then(|| Fault::Refuse(refusal.clone())));
    }

    /// From now on, no request to the target goes wrong.
    pub fn no_fault(&self) {
        self.target.faults().clear();
    }

    /// Makes the workspace `root:<name>`.
    pub async fn workspace(&self, name: &str) -> Workspace {
        let cluster = self.kcp.create_workspace("root", name).expect("a workspace");
        let path = format!("root:{name}");
        let rest = Rest::of_kubeconfig(&self.kcp.kubeconfig(None)).await.below(&format!("/clusters/{path}"));
        Workspace { rest, path, cluster }
    }
}

fn audited(server: &Sandbox, user: &str, began: Instant) -> AuditLog {
    let requests = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (log, user) = (requests.clone(), user.to_owned());
    server.audit(move |exchange| {
        if exchange.user_agent.starts_with(ENGINE) {
            log.lock().expect("the requests").push(request(exchange, &user, began));
        }
    });
    AuditLog::in_memory(requests)
}

fn request(exchange: &Exchange, user: &str, began: Instant) -> Request {
    Request {
        verb: verb(exchange.call.verb).to_owned(),
        uri: exchange.path.clone(),
        code: exchange.code.into(),
        // A watch is told when it is opened.
        stage: if exchange.call.verb == Verb::Watch { "ResponseStarted" } else { "ResponseComplete" }.to_owned(),
        user: user.to_owned(),
        agent: exchange.user_agent.clone(),
        received: format!("{:020}", began.elapsed().as_nanos()),
    }
}

/// As an audit log spells it.
fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch | Verb::Apply => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
    }
}
