//! The servers of the story, and what stands on them before it begins.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::kubeconfig::Context;
use crate::sandbox::{Answer, ApiRef, Options, Sandbox};
use crate::yaml::{self, Limits};

/// The mapping of the story, where a visitor brings none.
pub const MAPPING: &str = include_str!("../../../mappings/mongodb.yaml");
const SCHEMA: &str = include_str!("../../../schemas/mongodb/apiresourceschema.yaml");
const DEFINITION: &str = include_str!("../../../schemas/mongodb/crd.yaml");
const DATABASE: &str = include_str!("../../../examples/mongodb/mongodb.yaml");

const EXPORT: &str = "mongodb";
const DATABASES: &str = "mongodbcommunity.v1.mongodbcommunity.mongodb.com";
const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
/// What the first consumers are called; later ones have numbers.
const NAMES: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// How large the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plot {
    /// Consumers' workspaces.
    pub workspaces: usize,
    /// Databases in each.
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

/// kcp with the API, its provider and its consumers, and the downstream cluster.
pub struct Scene {
    /// kcp.
    pub kcp: Sandbox,
    /// The cluster that the databases run on.
    pub downstream: Arc<Sandbox>,
    /// In the order of their names.
    pub consumers: Vec<Consumer>,
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
    /// A document that comes with the program does not read.
    #[error("the program's own {0} holds no document")]
    Document(&'static str),
}

fn at(port: u16) -> String {
    if port == 0 { String::new() } else { format!(" from {port} on") }
}

impl Scene {
    /// Starts the servers, publishes the API, and makes consumers' workspaces that bind it.
    pub async fn set(plot: Plot) -> Result<Self, Failed> {
        let no_port = |source| Failed::Port { port: plot.port, source };
        let kcp = Options::kcp().seed("kcp").port(plot.port).shards(plot.shards).start().await.map_err(no_port)?;
        let next = if plot.port == 0 { 0 } else { plot.port.saturating_add(1) };
        let downstream = Options::kubernetes().seed("downstream").port(next).start().await.map_err(no_port)?;
        let definition = document("CustomResourceDefinition", DEFINITION)?;
        downstream.create(DEFINITIONS, &definition).map_err(refused("the CustomResourceDefinition"))?;
        kcp.create_workspace("root", EXPORT).map_err(refused("the provider's workspace"))?;
        let schema = document("APIResourceSchema", SCHEMA)?;
        kcp.publish(PROVIDER, EXPORT, &[schema], &[]).map_err(refused("the APIExport"))?;
        let consumers = (0..plot.workspaces).map(|index| consumer(&kcp, index)).collect::<Result<_, _>>()?;
        Ok(Self { kcp, downstream: Arc::new(downstream), consumers, plot })
    }

    /// The contexts of a visitor's kubeconfig: provider, consumers, downstream.
    pub fn contexts(&self) -> Vec<Context> {
        let workspace = |name: &str| {
            let path = format!("root:{name}");
            // A workspace that was deleted meanwhile has none.
            let token = self.kcp.token_of(&path).unwrap_or_default();
            Context { name: name.to_owned(), server: format!("{}/clusters/{path}", self.kcp.url()), token }
        };
        let provider = Context { name: "provider".to_owned(), ..workspace(EXPORT) };
        let consumers = self.consumers.iter().map(|consumer| workspace(&consumer.name));
        let token = self.downstream.token().to_owned();
        let downstream = Context { name: "downstream".to_owned(), server: self.downstream.url(), token };
        std::iter::once(provider).chain(consumers).chain([downstream]).collect()
    }

    /// How many databases the consumers order.
    pub fn orders(&self) -> usize {
        self.plot.workspaces * self.plot.objects
    }

    /// The consumers order their databases, of the same names in each workspace.
    pub fn order(&self) -> Result<(), Failed> {
        let sample = document("example", DATABASE)?;
        for index in 0..self.plot.objects {
            for consumer in &self.consumers {
                let mut database = sample.clone();
                if index > 0 {
                    let name = format!("{}-{}", name_of(&sample), index + 1);
                    database["metadata"]["name"] = name.into();
                }
                let databases = ApiRef { cluster: &consumer.cluster, resource: DATABASES };
                self.kcp.create(databases, &database).map_err(refused("a database"))?;
            }
        }
        Ok(())
    }

    /// Name of the first database that each consumer orders.
    pub fn first_database() -> Result<String, Failed> {
        Ok(name_of(&document("example", DATABASE)?).to_owned())
    }
}

/// Path of the provider's workspace.
const PROVIDER: &str = "root:mongodb";

fn consumer(kcp: &Sandbox, index: usize) -> Result<Consumer, Failed> {
    let name = NAMES.get(index).map_or_else(|| format!("consumer-{}", index + 1), |name| (*name).to_owned());
    let cluster = kcp.create_workspace("root", &name).map_err(refused("a consumer's workspace"))?;
    kcp.bind(&cluster, PROVIDER, EXPORT, &[]).map_err(refused("an APIBinding"))?;
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

fn document(what: &'static str, text: &str) -> Result<Value, Failed> {
    let documents = yaml::parse_within(text.as_bytes(), Limits::SCHEMAS);
    let root = documents.into_iter().find_map(|document| document.root);
    root.map(|root| root.to_json()).ok_or(Failed::Document(what))
}
