//! The servers of the story, and what stands on them before it begins.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::script::{Listing, Order, Place, Published, Script, open_definition};
use super::toy_cluster::ToyCluster;
use crate::engine::DEFAULT_TARGET;
use crate::mapping::Kind;
use crate::object::metadata;
use crate::sandbox::{Answer, ApiRef, Claim, Context, Options, Request, Sandbox, kubeconfig};

const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
/// What the first consumers are called; later ones have numbers.
pub(super) const NAMES: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// How large the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plot {
    /// Consumers' workspaces.
    pub workspaces: usize,
    /// How often each orders everything.
    pub objects: usize,
    /// Shards of kcp.
    pub shards: usize,
    /// Port of kcp; the downstream cluster has the next, and those beside it have the ones after the status page's. 0: any.
    pub port: u16,
}

impl Plot {
    /// The port of a cluster by its place after kcp; 0: any.
    fn port(&self, index: usize) -> u16 {
        let next = || self.port.checked_add(u16::try_from(index).ok()?);
        if self.port == 0 { 0 } else { next().unwrap_or(0) }
    }
}

/// A consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the workspace.
    pub name: String,
    /// Name of its logical cluster.
    pub cluster: String,
}

/// What the downstream cluster is called in stories and contexts.
const DOWNSTREAM: &str = "downstream";

/// A cluster.
pub struct Member {
    /// Name of its context.
    pub name: String,
    /// The engine's connection to it.
    pub connection: String,
    /// Its API server.
    pub server: Arc<Sandbox>,
}

/// kcp with the APIs, their providers and their consumers, and clusters.
pub struct Scene {
    /// kcp.
    pub kcp: Sandbox,
    /// The cluster that the consumers' orders run on, and those that ToyClusters add.
    pub clusters: Vec<Member>,
    /// In the order of their names.
    pub consumers: Vec<Consumer>,
    /// What is played.
    pub script: Script,
    plot: Plot,
}

/// Why the scene cannot be set, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

/// A port is not to be had; 0: any.
fn no_port(port: u16) -> impl Fn(io::Error) -> Failed {
    let at = if port == 0 { String::new() } else { format!(" from {port} on") };
    move |why| Failed(format!("cannot open the ports of the sandbox on loopback{at}: {why}"))
}

impl Scene {
    /// Starts the servers, publishes the APIs, and makes consumers' workspaces that bind them.
    pub async fn set(plot: Plot, script: Script) -> Result<Self, Failed> {
        let kcp = Options::kcp().encrypted().seed("kcp").port(plot.port).shards(plot.shards);
        let kcp = kcp.start().await.map_err(no_port(plot.port))?;
        let mut clusters = vec![member(DOWNSTREAM, DEFAULT_TARGET, plot.port(1), &script).await?];
        for (index, ToyCluster { name, .. }) in script.clusters.iter().enumerate() {
            clusters.push(member(name, name, plot.port(index + 3), &script).await?);
        }
        for listing in &script.listings {
            list(&clusters, listing, &script.clusters)?;
        }
        for export in &script.exports {
            publish(&kcp, export)?;
        }
        let workspaces = if script.exports.is_empty() { 0 } else { plot.workspaces };
        let consumers = (0..workspaces).map(|index| consumer(&kcp, index, &script)).collect::<Result<_, _>>()?;
        Ok(Self { kcp, clusters, consumers, script, plot })
    }

    /// The cluster behind a connection.
    pub fn cluster(&self, connection: &str) -> Option<&Member> {
        self.clusters.iter().find(|member| member.connection == connection)
    }

    /// The contexts of a visitor's kubeconfig: provider, consumers, clusters.
    pub fn contexts(&self) -> Vec<Context> {
        let workspace = |name: &str, path: &str| {
            // A workspace that was deleted meanwhile has none.
            let token = self.kcp.token_of(path).unwrap_or_default();
            Context { token, ..self.kcp.context(name, Some(path)) }
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
        let (downstream, beside) = self.clusters.split_at(1);
        let clusters = beside.iter().chain(downstream).map(|member| member.server.context(&member.name, None));
        std::iter::once(provider).chain(consumers).chain(clusters).collect()
    }

    /// How many objects are ordered.
    pub fn orders(&self) -> usize {
        let places = |order: &Order| match &order.place {
            Place::Workspaces => self.consumers.len(),
            Place::Clusters(connections) => connections.len(),
        };
        self.plot.objects * self.script.orders.iter().map(places).sum::<usize>()
    }

    /// Everything is ordered, under the same names in each workspace and on each cluster.
    pub fn order(&self) -> Result<(), Failed> {
        let in_workspaces = self.consumers.iter().map(|consumer| {
            let orders = self.script.orders.iter().filter(|order| order.place == Place::Workspaces);
            Shop { server: &self.kcp, cluster: &consumer.cluster, orders: orders.collect() }
        });
        let on_clusters = self.clusters.iter().map(|member| {
            let orders = self.script.orders.iter().filter(|order| order.place.has(&member.connection));
            Shop { server: &member.server, cluster: "", orders: orders.collect() }
        });
        let shops: Vec<_> = in_workspaces.chain(on_clusters).filter(|shop| !shop.orders.is_empty()).collect();
        shops.iter().try_for_each(|shop| shop.prepare(&self.script.companions))?;
        (0..self.plot.objects).try_for_each(|index| shops.iter().try_for_each(|shop| shop.order(index)))
    }
}

/// A workspace or a cluster where something is ordered.
struct Shop<'a> {
    server: &'a Sandbox,
    /// Its logical cluster.
    cluster: &'a str,
    orders: Vec<&'a Order>,
}

impl Shop<'_> {
    /// Creates what the orders refer to, and the namespaces that they stand in.
    fn prepare(&self, companions: &[Value]) -> Result<(), Failed> {
        let objects = self.orders.iter().map(|order| &order.object).chain(companions);
        let namespaces: BTreeSet<&str> =
            objects.filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
        namespaces.into_iter().try_for_each(|name| ensure_namespace(self.server, self.cluster, name))?;
        for companion in companions {
            let resource = if companion["kind"] == "Secret" { "secrets.v1" } else { "configmaps.v1" };
            let api = ApiRef { cluster: self.cluster, resource };
            self.server.create(api, companion).map_err(refused("what lies beside an order"))?;
        }
        Ok(())
    }

    fn order(&self, index: usize) -> Result<(), Failed> {
        for order in &self.orders {
            let mut object = order.object.clone();
            if index > 0 {
                object["metadata"]["name"] = format!("{}-{}", metadata(&order.object, "name"), index + 1).into();
            }
            let api = ApiRef { cluster: self.cluster, resource: &order.resource.to_string() };
            self.server.create(api, &object).map_err(refused(&format!("an order ({})", metadata(&object, "name"))))?;
        }
        Ok(())
    }
}

fn ensure_namespace(server: &Sandbox, cluster: &str, name: &str) -> Result<(), Failed> {
    let api = ApiRef { cluster, resource: "namespaces.v1" };
    if server.get(api, "", name).is_none() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(api, &namespace).map_err(refused("a namespace"))?;
    }
    Ok(())
}

/// A cluster that serves every kind of the script.
async fn member(name: &str, connection: &str, port: u16, script: &Script) -> Result<Member, Failed> {
    let started = Options::kubernetes().encrypted().seed(name).port(port).start().await;
    let server = started.map_err(no_port(port))?;
    for definition in &script.definitions {
        server.create(DEFINITIONS, definition).map_err(refused("a CustomResourceDefinition"))?;
    }
    let is_served = |kind: &&Kind| {
        let resources = resources(&server, &kind.group, &kind.version);
        resources.iter().any(|resource| resource["kind"] == kind.kind)
    };
    for kind in script.undefined.iter().filter(|kind| !is_served(kind)) {
        let definition = open_definition(kind);
        if kind.group.is_empty() {
            server.define(&definition);
            continue;
        }
        let what = format!("a definition of {kind}, which no document beside the mappings defines");
        server.create(DEFINITIONS, &definition).map_err(refused(&what))?;
    }
    Ok(Member { name: name.to_owned(), connection: connection.to_owned(), server: Arc::new(server) })
}

/// Puts the kubeconfig of each added cluster into a Secret of a hub.
fn list(clusters: &[Member], listing: &Listing, added: &[ToyCluster]) -> Result<(), Failed> {
    let Some(hub) = clusters.iter().find(|member| member.connection == listing.hub) else { return Ok(()) };
    let api = ApiRef { cluster: "", resource: "secrets.v1" };
    ensure_namespace(&hub.server, "", &listing.namespace)?;
    for ToyCluster { name, labels } in added {
        let Some(member) = clusters.iter().find(|member| member.connection == *name) else { continue };
        let data = json!({&listing.key: kubeconfig(&[member.server.context(&member.name, None)])});
        // Two providers may read one namespace, by other keys.
        let listed = match hub.server.get(api, &listing.namespace, name) {
            Some(_) => hub.server.merge(api, &listing.namespace, name, &json!({"stringData": data})),
            None => {
                let metadata = json!({"namespace": listing.namespace, "name": name, "labels": labels});
                let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
                hub.server.create(api, &secret)
            }
        };
        listed.map_err(refused("the Secret of a cluster"))?;
    }
    Ok(())
}

/// What the discovery of an API says of its resources; nothing where it is not served.
pub(super) fn resources(cluster: &Sandbox, group: &str, version: &str) -> Vec<Value> {
    let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let answer = cluster.request(&Request::get(&path)).to_json();
    answer["resources"].as_array().cloned().unwrap_or_default()
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
    kcp.publish(&export.path, &export.name, &export.schemas, &claims(export)).map_err(refused("the APIExport"))?;
    Ok(())
}

fn claims(export: &Published) -> Vec<Claim<'_>> {
    export.claims.iter().map(|(group, resource)| Claim { group, resource }).collect()
}

fn consumer(kcp: &Sandbox, index: usize, script: &Script) -> Result<Consumer, Failed> {
    let name = NAMES.get(index).map_or_else(|| format!("consumer-{}", index + 1), |name| (*name).to_owned());
    let cluster = kcp.create_workspace("root", &name).map_err(refused("a consumer's workspace"))?;
    for export in &script.exports {
        kcp.bind(&cluster, &export.path, &export.name, &claims(export)).map_err(refused("an APIBinding"))?;
    }
    Ok(Consumer { name, cluster })
}

fn refused(what: &str) -> impl Fn(Answer) -> Failed {
    move |answer| {
        let (code, answer) = (answer.code, answer.to_json());
        let message = answer["message"].as_str().unwrap_or_default();
        Failed(format!("the sandbox refuses {what} ({code}): {message}"))
    }
}
