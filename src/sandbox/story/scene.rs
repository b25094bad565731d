//! The servers of the story, and what stands on them before it begins.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::script::{Order, Published, Script, open_definition};
use crate::mapping::Kind;
use crate::sandbox::{Answer, ApiRef, Claim, Context, Options, Request, Sandbox};

const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
/// What the first consumers are called; later ones have numbers.
const NAMES: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// How large the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plot {
    /// Consumers' workspaces.
    pub workspaces: usize,
    /// How often each orders everything.
    pub objects: usize,
    /// Shards of kcp.
    pub shards: usize,
    /// Port of kcp; the downstream cluster has the next. 0: any.
    pub port: u16,
}

/// A consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the workspace.
    pub name: String,
    /// Name of its logical cluster.
    pub cluster: String,
}

/// kcp with the APIs, their providers and their consumers, and the downstream cluster.
pub struct Scene {
    /// kcp.
    pub kcp: Sandbox,
    /// The cluster that the consumers' orders run on.
    pub downstream: Arc<Sandbox>,
    /// In the order of their names.
    pub consumers: Vec<Consumer>,
    /// What is played.
    pub script: Script,
    plot: Plot,
}

/// Why the scene cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// A port is not to be had.
    #[error("cannot open the ports of the sandbox on loopback{}", at(*port))]
    Port {
        /// As it was asked for; 0: any.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// A server refuses what the scene needs.
    #[error("the sandbox refuses {what} ({code}): {message}")]
    Refused {
        /// What was asked for.
        what: String,
        /// HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
}

fn at(port: u16) -> String {
    if port == 0 { String::new() } else { format!(" from {port} on") }
}

impl Scene {
    /// Starts the servers, publishes the APIs, and makes consumers' workspaces that bind them.
    pub async fn set(plot: Plot, script: Script) -> Result<Self, Failed> {
        let no_port = |source| Failed::Port { port: plot.port, source };
        let kcp = Options::kcp().encrypted().seed("kcp").port(plot.port).shards(plot.shards);
        let kcp = kcp.start().await.map_err(no_port)?;
        let next = if plot.port == 0 { 0 } else { plot.port.saturating_add(1) };
        let downstream =
            Options::kubernetes().encrypted().seed("downstream").port(next).start().await.map_err(no_port)?;
        for definition in &script.definitions {
            downstream.create(DEFINITIONS, definition).map_err(refused("a CustomResourceDefinition"))?;
        }
        for kind in script.undefined.iter().filter(|kind| !is_served(&downstream, kind)) {
            let what = format!("a definition of {kind}, which no document beside the mappings defines");
            downstream.create(DEFINITIONS, &open_definition(kind)).map_err(refused(&what))?;
        }
        for export in &script.exports {
            publish(&kcp, export)?;
        }
        let consumers = (0..plot.workspaces).map(|index| consumer(&kcp, index, &script)).collect::<Result<_, _>>()?;
        Ok(Self { kcp, downstream: Arc::new(downstream), consumers, script, plot })
    }

    /// The contexts of a visitor's kubeconfig: provider, consumers, downstream.
    pub fn contexts(&self) -> Vec<Context> {
        let workspace = |name: &str, path: &str| {
            // A workspace that was deleted meanwhile has none.
            let token = self.kcp.token_of(path).unwrap_or_default();
            let authority = self.kcp.authority().map(str::to_owned);
            Context { name: name.to_owned(), server: format!("{}/clusters/{path}", self.kcp.url()), authority, token }
        };
        let mut exports = self.script.exports.iter().map(|export| export.path.as_str());
        let path = exports.next().unwrap_or("root");
        let mut provider = workspace("provider", path);
        // One who publishes in several workspaces needs the right to all of them.
        if exports.any(|other| other != path) {
            provider.token = self.kcp.token().to_owned();
        }
        let consumers =
            self.consumers.iter().map(|consumer| workspace(&consumer.name, &format!("root:{}", consumer.name)));
        let token = self.downstream.token().to_owned();
        let authority = self.downstream.authority().map(str::to_owned);
        let downstream = Context { name: "downstream".to_owned(), server: self.downstream.url(), authority, token };
        std::iter::once(provider).chain(consumers).chain([downstream]).collect()
    }

    /// How many objects the consumers order.
    pub fn orders(&self) -> usize {
        self.plot.workspaces * self.plot.objects * self.script.orders.len()
    }

    /// The consumers order, under the same names in each workspace.
    pub fn order(&self) -> Result<(), Failed> {
        for consumer in &self.consumers {
            self.accompany(consumer)?;
        }
        for index in 0..self.plot.objects {
            for consumer in &self.consumers {
                for order in &self.script.orders {
                    self.place(consumer, order, index)?;
                }
            }
        }
        Ok(())
    }

    /// What the orders refer to, and the namespaces that they stand in.
    fn accompany(&self, consumer: &Consumer) -> Result<(), Failed> {
        let objects = self.script.orders.iter().map(|order| &order.object).chain(&self.script.companions);
        let namespaces: BTreeSet<&str> = objects
            .filter_map(|object| object["metadata"]["namespace"].as_str())
            .filter(|name| *name != "default")
            .collect();
        for name in namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let api = ApiRef { cluster: &consumer.cluster, resource: "namespaces.v1" };
            self.kcp.create(api, &namespace).map_err(refused("a namespace"))?;
        }
        for companion in &self.script.companions {
            let resource = if companion["kind"] == "Secret" { "secrets.v1" } else { "configmaps.v1" };
            let api = ApiRef { cluster: &consumer.cluster, resource };
            self.kcp.create(api, companion).map_err(refused("what lies beside an order"))?;
        }
        Ok(())
    }

    fn place(&self, consumer: &Consumer, order: &Order, index: usize) -> Result<(), Failed> {
        let mut object = order.object.clone();
        if index > 0 {
            object["metadata"]["name"] = format!("{}-{}", name_of(&order.object), index + 1).into();
        }
        let api = ApiRef { cluster: &consumer.cluster, resource: &order.resource };
        self.kcp.create(api, &object).map_err(refused(&format!("an order ({})", name_of(&object))))?;
        Ok(())
    }
}

fn is_served(cluster: &Sandbox, kind: &Kind) -> bool {
    let path =
        if kind.group.is_empty() { format!("/api/{}", kind.version) } else { format!("/apis/{}", kind.api_version()) };
    let answer = cluster.request(&Request::get(&path));
    let served = answer.to_json();
    let kinds = served["resources"].as_array().into_iter().flatten();
    answer.code == 200 && kinds.into_iter().any(|resource| resource["kind"] == kind.kind)
}

fn publish(kcp: &Sandbox, export: &Published) -> Result<(), Failed> {
    let mut parent = "root".to_owned();
    for name in export.path.split(':').skip(1) {
        let path = format!("{parent}:{name}");
        // Several exports may stand in one workspace, or below each other.
        let workspaces = ApiRef { cluster: &parent, resource: "workspaces.v1alpha1.tenancy.kcp.io" };
        if kcp.get(workspaces, "", name).is_none() {
            kcp.create_workspace(&parent, name).map_err(refused("the provider's workspace"))?;
        }
        parent = path;
    }
    let claims: Vec<Claim<'_>> = claims(export).collect();
    kcp.publish(&export.path, &export.name, &export.schemas, &claims).map_err(refused("the APIExport"))?;
    Ok(())
}

fn claims(export: &Published) -> impl Iterator<Item = Claim<'_>> {
    export.claims.iter().map(|(group, resource)| Claim { group, resource })
}

fn consumer(kcp: &Sandbox, index: usize, script: &Script) -> Result<Consumer, Failed> {
    let name = NAMES.get(index).map_or_else(|| format!("consumer-{}", index + 1), |name| (*name).to_owned());
    let cluster = kcp.create_workspace("root", &name).map_err(refused("a consumer's workspace"))?;
    for export in &script.exports {
        let claims: Vec<Claim<'_>> = claims(export).collect();
        kcp.bind(&cluster, &export.path, &export.name, &claims).map_err(refused("an APIBinding"))?;
    }
    Ok(Consumer { name, cluster })
}

fn refused(what: &str) -> impl Fn(Answer) -> Failed {
    move |answer| Failed::Refused {
        what: what.to_owned(),
        code: answer.code,
        message: answer.to_json()["message"].as_str().unwrap_or_default().to_owned(),
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
