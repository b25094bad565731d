//! Which cluster an address leads to, and whether that is confirmed.

use parking_lot::Mutex;
use serde_json::Value;

use super::api_path::ApiPath;
use super::endpoint::Reply;
use super::permit::{Epoch, Follower, Permit};
use super::raw::CLUSTER_ANNOTATION;
use super::request_error::RequestError;
use sync_engine_mapping::Resource;
use sync_engine_mapping::object::metadata;

/// What is known of the identity of the cluster behind a connection's own address.
///
/// Whoever has reason to doubt it says so at once, before anybody acts on what the address answers next; the provider of
/// the cluster then confirms it.
#[derive(Debug, Default)]
pub struct Confirmation {
    doubts: Epoch,
    /// What was found out last, and how many doubts that answers.
    last: Mutex<Option<(u64, Result<String, String>)>>,
    confirmed: Epoch,
}

/// What is known of an identity now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityState {
    Identity(String),
    /// It could not be confirmed, for this reason.
    Failed(String),
    /// It is being confirmed.
    Pending,
}

impl Confirmation {
    /// The address or the credential is another, or a watch had to start over: it may be another cluster.
    pub fn doubt(&self) {
        self.doubts.advance();
    }

    /// How many doubts there were, and a way to wait for the next one.
    pub fn doubts(&self) -> Follower {
        self.doubts.follow()
    }

    /// To wait for what becomes of a doubt.
    pub fn outcomes(&self) -> Follower {
        self.confirmed.follow()
    }

    /// What was found out since there were so many doubts.
    pub fn confirm(&self, as_of: u64, identity: Result<String, String>) {
        *self.last.lock() = Some((as_of, identity));
        self.confirmed.advance();
    }

    pub fn known(&self) -> IdentityState {
        match &*self.last.lock() {
            Some((_, Err(why))) => IdentityState::Failed(why.clone()),
            Some((as_of, Ok(identity))) if *as_of == self.doubts.now() => IdentityState::Identity(identity.clone()),
            _ => IdentityState::Pending,
        }
    }

    /// The right to write until the next doubt.
    pub fn permit(&self) -> Permit {
        self.doubts.permit()
    }
}

/// What can be asked which cluster it leads to.
pub trait Ask: Sync {
    fn ask(&self, path: &ApiPath) -> impl Future<Output = Result<Reply, RequestError>> + Send;

    fn url(&self) -> &str;
}

/// Identity of the cluster behind an endpoint, or a connection.
///
/// In a kcp workspace (its namespace `default` says which): name and uid of its logical cluster, because names are used
/// again, else the name and the uid of `default`. Elsewhere the uid of the namespace `kube-system`, else of `default`.
///
/// # Errors
/// The request's.
pub async fn cluster_identity(endpoint: &impl Ask) -> Result<String, RequestError> {
    match namespace(endpoint, "kube-system").await {
        // kcp annotates every object, and a workspace may have a namespace of this name too.
        Ok((_, Some(_))) => {}
        Err(error) if error.is_not_found_of("kube-system") => {}
        result => return result.map(|(uid, _)| uid),
    }
    match namespace(endpoint, "default").await? {
        (uid, None) => Ok(uid),
        (uid, Some(name)) => {
            let logical_clusters = Resource::new("core.kcp.io", "v1alpha1", "logicalclusters");
            match object(endpoint, &ApiPath::object(&logical_clusters, "", "cluster")?).await {
                Ok((uid, _)) => Ok(format!("{name}/{uid}")),
                // It is not served. A refusal is no answer: kcp refuses for some seconds after a restart what it allows.
                Err(error) if error.code() == Some(404) => Ok(format!("{name}/{uid}")),
                Err(error) => Err(error),
            }
        }
    }
}

/// An object's uid, and the logical cluster that kcp says it is in.
type Found = (String, Option<String>);

async fn namespace(endpoint: &impl Ask, name: &str) -> Result<Found, RequestError> {
    object(endpoint, &ApiPath::object(&Resource::new("", "v1", "namespaces"), "", name)?).await
}

async fn object(endpoint: &impl Ask, path: &ApiPath) -> Result<Found, RequestError> {
    let reply = endpoint.ask(path).await?;
    let failed = |reason: String| RequestError::Body { url: endpoint.url().to_owned(), reason };
    let object: Value = serde_json::from_slice(&reply.body).map_err(|error| failed(error.to_string()))?;
    let cluster = object["metadata"]["annotations"][CLUSTER_ANNOTATION].as_str().map(str::to_owned);
    match metadata(&object, "uid") {
        "" => Err(failed("an object without uid, by which the cluster could be told from another".to_owned())),
        uid => Ok((uid.to_owned(), cluster)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_stands_until_it_is_answered_and_ends_every_permit() {
        let confirmation = Confirmation::default();
        assert_eq!(confirmation.known(), IdentityState::Pending);
        confirmation.confirm(0, Ok("a".into()));
        assert_eq!(confirmation.known(), IdentityState::Identity("a".into()));
        let permit = confirmation.permit();
        confirmation.doubt();
        assert_eq!((confirmation.known(), permit.holds()), (IdentityState::Pending, false));
        confirmation.confirm(0, Ok("a".into()));
        assert_eq!(confirmation.known(), IdentityState::Pending, "found out before the doubt");
        confirmation.confirm(1, Err("refused".into()));
        assert_eq!(confirmation.known(), IdentityState::Failed("refused".into()));
        confirmation.confirm(1, Ok("b".into()));
        assert_eq!(confirmation.known(), IdentityState::Identity("b".into()));
    }
}
