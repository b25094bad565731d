//! In-memory servers in the place of real ones: a case has its own pair, started in no time.

use std::sync::Arc;
use std::time::Instant;

use sync_engine::sandbox::{Exchange, Options, Sandbox, Verb};

use crate::audit::{AuditLog, Request};
use crate::kcp::Workspace;
use crate::rest::Rest;

/// What the engine calls itself; the sandbox knows no users.
const ENGINE: &str = "sync-engine/";

/// A kcp and a target.
pub struct Memory {
    kcp: Sandbox,
    /// It runs until the case ends.
    _target: Sandbox,
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
            _target: target,
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
