//! The kubeconfig that a visitor gets: a context for each place.

use serde_json::{Value, json};

use crate::sandbox::access;

/// One context: a server's address and a user's token under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Name of the context, its cluster and its user.
    pub name: String,
    /// Base URL.
    pub server: String,
    /// Bearer token.
    pub token: String,
}

/// A kubeconfig of contexts, the first of which is current. JSON, which is YAML.
pub fn kubeconfig(contexts: &[Context]) -> String {
    let named = |each: &dyn Fn(&Context) -> Value| contexts.iter().map(each).collect::<Vec<_>>();
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "current-context": contexts.first().map(|context| &context.name),
        "clusters": named(&|context| json!({"name": context.name, "cluster": {"server": server(context)}})),
        "users": named(&|context| json!({"name": context.name, "user": {"token": context.token}})),
        "contexts": named(&|context| {
            json!({"name": context.name, "context": {"cluster": context.name, "user": context.name}})
        }),
    });
    format!("{config:#}\n")
}

fn server(context: &Context) -> String {
    access::with_password(&context.server, &context.name, &context.token)
}
