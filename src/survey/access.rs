//! Whether the user of a connection may do something: SelfSubjectAccessReviews, which change nothing.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::mapping::Resource;
use crate::multicluster::{ApiPath, Body, Endpoint};
use crate::rights::Rule;

/// Answers so far: rules of several mappings are often the same.
#[derive(Default)]
pub struct Access {
    known: Mutex<BTreeMap<(String, String), bool>>,
}

impl Access {
    /// The verbs of a rule that are refused. A server that does not say refuses none.
    pub async fn refused(&self, endpoint: &Endpoint, rule: &Rule) -> Vec<String> {
        let mut refused = Vec::new();
        for verb in &rule.verbs {
            let mut allowed = true;
            for attributes in attributes(rule, verb) {
                allowed &= self.is_allowed(endpoint, &attributes).await;
            }
            refused.extend((!allowed).then(|| verb.clone()));
        }
        refused
    }

    async fn is_allowed(&self, endpoint: &Endpoint, attributes: &Value) -> bool {
        let key = (endpoint.url().to_owned(), attributes.to_string());
        if let Some(known) = self.known.lock().get(&key) {
            return *known;
        }
        let allowed = review(endpoint, attributes).await.unwrap_or(true);
        self.known.lock().insert(key, allowed);
        allowed
    }
}

/// One review for each name or URL of a rule.
fn attributes(rule: &Rule, verb: &str) -> Vec<Value> {
    if !rule.urls.is_empty() {
        // A wildcard stands for what is behind it.
        let concrete = |url: &String| json!({"nonResourceAttributes": {"path": url.replace('*', "v1"), "verb": verb}});
        return rule.urls.iter().map(concrete).collect();
    }
    let (resource, subresource) = rule.resource.split_once('/').unwrap_or((&rule.resource, ""));
    let of = |name: &str| {
        json!({"resourceAttributes": {
            "namespace": rule.namespace.as_deref().unwrap_or_default(), "verb": verb, "group": rule.group,
            "resource": resource, "subresource": subresource, "name": name,
        }})
    };
    match &rule.names[..] {
        [] => vec![of("")],
        names => names.iter().map(|name| of(name)).collect(),
    }
}

/// `None`: the server gives no such answers.
async fn review(endpoint: &Endpoint, attributes: &Value) -> Option<bool> {
    let reviews = Resource::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews");
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes,
    });
    let path = ApiPath::all(&reviews).ok()?;
    let deadline = crate::multicluster::endpoint::DEFAULT_DEADLINE;
    let asked = endpoint.request(http::Method::POST, &path, Some(Body::json(body.to_string())), deadline).await;
    match asked {
        Ok(reply) => serde_json::from_slice::<Value>(&reply.body).ok()?["status"]["allowed"].as_bool(),
        // Who may not even ask may do nothing else there. That a credential is not accepted is said where the cluster is looked at.
        Err(error) if error.code() == Some(403) => Some(false),
        Err(_) => None,
    }
}
