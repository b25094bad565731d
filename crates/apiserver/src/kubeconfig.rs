//! Kubeconfigs of the servers: one context for each place.

use data_encoding::BASE64;
use serde_json::{Value, json};

/// One context: a server's address and a user's token under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Name of the context, its cluster and its user.
    pub name: String,
    /// Base URL.
    pub server: String,
    /// The certificate to trust, in PEM; `None` for plain HTTP.
    pub authority: Option<String>,
    pub token: String,
}

/// A kubeconfig of contexts, the first of which is current. JSON, which is YAML.
pub fn kubeconfig(contexts: &[Context]) -> String {
    let named = |each: &dyn Fn(&Context) -> Value| contexts.iter().map(each).collect::<Vec<_>>();
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "current-context": contexts.first().map(|context| &context.name),
        "clusters": named(&|context| json!({"name": context.name, "cluster": cluster(context)})),
        "users": named(&|context| json!({"name": context.name, "user": {"token": context.token}})),
        "contexts": named(&|context| {
            json!({"name": context.name, "context": {"cluster": context.name, "user": context.name}})
        }),
    });
    format!("{config:#}\n")
}

fn cluster(context: &Context) -> Value {
    let mut cluster = json!({"server": context.server});
    if let Some(authority) = &context.authority {
        cluster["certificate-authority-data"] = BASE64.encode(authority.as_bytes()).into();
    }
    cluster
}
