//! The servers of a run: the real ones, started when the first case needs them, and an in-memory one for each case.

use std::path::Path;

use serde_json::{Value, json};
use sync_engine::sandbox::{Admission, Options, Sandbox, parts};
use tokio::sync::OnceCell;

use crate::credentials::ADMIN;
use crate::kube::{ApiServer, CARETAKERS, Controllers, Etcd};
use crate::machine::Machine;
use crate::mask::masked;
use crate::play::{Variables, play};
use crate::script::{self, Case, Kind, Step};
use crate::server::Server;

/// The real servers.
pub struct Stage {
    pub machine: Machine,
    kubernetes: OnceCell<(Ready, Kubernetes)>,
    kcp: OnceCell<(Ready, ApiServer)>,
}

struct Kubernetes {
    _controllers: Controllers,
    _server: ApiServer,
    _etcd: Etcd,
}

/// A server on which the setup has been carried out.
pub struct Ready {
    pub server: Server,
    variables: Variables,
}

/// An in-memory server of one case.
pub struct InMemory {
    pub ready: Ready,
    sandbox: Sandbox,
}

/// Workspace of kcp that cases run in where they name no other.
const WORKSPACE: &str = "/clusters/root:conformance";

impl Stage {
    /// Nothing is started; every file of the run goes below `folder`.
    pub fn new(folder: &Path) -> Self {
        Self { machine: Machine::new(folder), kubernetes: OnceCell::new(), kcp: OnceCell::new() }
    }

    /// Why a kind of server cannot be had on this machine.
    pub fn missing(&self, kind: Kind) -> Option<String> {
        match kind {
            Kind::Kubernetes => self.machine.lacks_kubernetes(),
            Kind::Kcp => self.machine.lacks_kcp(),
        }
    }

    /// The real server of a kind; only where it is not missing.
    pub async fn real(&self, kind: Kind) -> &Ready {
        match kind {
            Kind::Kubernetes => &self.kubernetes.get_or_init(|| self.start_kubernetes()).await.0,
            Kind::Kcp => &self.kcp.get_or_init(|| self.start_kcp()).await.0,
        }
    }

    async fn start_kubernetes(&self) -> (Ready, Kubernetes) {
        let (binaries, folder) = (self.machine.binaries(), &self.machine.folder);
        let etcd = Etcd::start(binaries, folder);
        let server = ApiServer::start(binaries, &etcd, "kubernetes", folder).await;
        let controllers = Controllers::start(binaries, &server, CARETAKERS);
        let ready = Ready::new(Kind::Kubernetes, &server.kubeconfig(ADMIN)).await;
        (ready, Kubernetes { _controllers: controllers, _server: server, _etcd: etcd })
    }

    async fn start_kcp(&self) -> (Ready, ApiServer) {
        let kcp = ApiServer::start_kcp(self.machine.kcp(), &self.machine.folder).await;
        // The server's address without a workspace: the cases name those.
        (Ready::new(Kind::Kcp, &kcp.kubeconfig(ADMIN)).await, kcp)
    }
}

impl InMemory {
    pub async fn start(kind: Kind) -> Self {
        let options = match kind {
            Kind::Kubernetes => Options::kubernetes(),
            Kind::Kcp => Options::kcp(),
        };
        let sandbox = options.start().await.expect("an in-memory server");
        Self { ready: Ready::new(kind, &sandbox.kubeconfig(None)).await, sandbox }
    }

    /// Plays a case.
    pub async fn play(&self, case: &Case) -> Vec<Value> {
        let change = |change: &script::Admission| {
            let (plural, _, group) = parts(&change.resource);
            Admission { group: group.to_owned(), plural: plural.to_owned(), patch: change.patch.clone() }
        };
        self.sandbox.set_admission(case.admission.iter().map(change).collect());
        self.ready.play(case).await
    }
}

impl Ready {
    async fn new(kind: Kind, kubeconfig: &str) -> Self {
        let mut variables = Variables::new();
        if kind == Kind::Kcp {
            let server = Server::new(kubeconfig, "").await;
            variables = play(&script::setup("workspaces"), &server, variables).await.variables;
        }
        let server = Server::new(kubeconfig, if kind == Kind::Kcp { WORKSPACE } else { "" }).await;
        let variables = play(&script::setup("definitions"), &server, variables).await.variables;
        Self { server, variables }
    }

    /// `gitVersion`.
    pub async fn version(&self) -> String {
        let answer = self.ask(Step::new("GET /version")).await;
        answer["body"]["gitVersion"].as_str().unwrap_or_default().to_owned()
    }

    /// The answer to one request.
    async fn ask(&self, step: Step) -> Value {
        let case = Case { name: String::new(), on: Vec::new(), admission: Vec::new(), steps: vec![step] };
        play(&case, &self.server, Variables::new()).await.answers.remove(0)
    }

    /// Plays a case on a real server.
    pub async fn play_with_admission(&self, case: &Case) -> Vec<Value> {
        for (index, change) in case.admission.iter().enumerate() {
            let name = format!("{}-{index}", namespace_of(case));
            for (plural, object) in policy(&name, &namespace_of(case), change) {
                let url = format!("POST /apis/admissionregistration.k8s.io/v1/{plural}");
                let answer = self.ask(Step { body: Some(object), ..Step::new(&url) }).await;
                assert_eq!(answer["code"], 201, "{answer}");
            }
        }
        self.play(case).await
    }

    /// Plays a case in a namespace of its own; gives the masked answers.
    pub async fn play(&self, case: &Case) -> Vec<Value> {
        let namespace = namespace_of(case);
        self.make_namespace(&namespace).await;
        let mut variables = self.variables.clone();
        let core = format!("/api/v1/namespaces/{namespace}");
        let custom = format!("/apis/conformance.test/v1/namespaces/{namespace}");
        let fixed = [
            ("cm", format!("{core}/configmaps")),
            ("widgets", format!("{custom}/widgets")),
            ("gadgets", "/apis/conformance.test/v1/gadgets".to_owned()),
            ("ns", namespace),
            // Versions of no object; random sequences replace them by what they see.
            ("version-map", "1".to_owned()),
            ("version-one", "1".to_owned()),
            ("version-two", "1".to_owned()),
        ];
        variables.extend(fixed.iter().map(|(name, value)| (name.to_string(), value.clone())));
        let mut played = play(case, &self.server, variables).await;
        fixed.iter().for_each(|(name, _)| drop(played.variables.remove(*name)));
        masked(played)
    }

    async fn make_namespace(&self, name: &str) {
        let body = Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        let answer = self.ask(Step { body, ..Step::new("POST /api/v1/namespaces") }).await;
        assert_eq!(answer["code"], 201, "{answer}");
    }
}

/// A policy of mutating admission for one namespace, and what puts it into force.
fn policy(name: &str, namespace: &str, change: &script::Admission) -> [(&'static str, Value); 2] {
    let (plural, version, group) = parts(&change.resource);
    let api = "admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": ["CREATE", "UPDATE"],
    });
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change.cel}});
    let policy = json!({
        "apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector}, "mutations": [mutation],
            "reinvocationPolicy": "IfNeeded", "failurePolicy": "Fail",
        },
    });
    let binding = json!({
        "apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name},
    });
    [("mutatingadmissionpolicies", policy), ("mutatingadmissionpolicybindings", binding)]
}

/// `<file>-<case>`, fit for a namespace.
fn namespace_of(case: &Case) -> String {
    let mut name: String = case.name.replace("::", "-").replace([' ', '_'], "-").to_lowercase();
    name.truncate(60);
    name.trim_end_matches('-').to_owned()
}
