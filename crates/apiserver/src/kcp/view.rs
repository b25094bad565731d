//! The virtual workspace of an export: `/services/apiexport/<cluster>/<export>/clusters/<name or *>`.

use std::sync::Arc;

use super::super::builtin::APIS;
use super::super::collection::Key;
use super::super::request::{Place, Request, ResourcePath, Verb};
use super::super::resource::Resource;
use super::super::state::{Scope, State, Unbound, View};
use super::super::status::Failure;
use super::{BINDS, CLAIMED, Export, export::identity, short_hash};

impl State {
    /// What a URL in a virtual workspace shows.
    pub(crate) fn virtual_view(
        &self,
        provider: &str,
        export: &str,
        cluster: Option<&str>,
        path: &ResourcePath,
        request: &Request,
    ) -> Result<View, Failure> {
        let shard = request.shard;
        let denied = || Failure::access_denied(&request.user.to_string(), request.verb(path.name.is_some()), path);
        let (id, export) = self.export_at(provider, export)?;
        let scope = match cluster.filter(|name| !name.contains(':')) {
            None => return Err(unresolved(request)),
            Some("*") => Scope::Bound { export: id.clone(), shard },
            Some(name) => Scope::Cluster(self.bound_cluster(export, name, shard).ok_or_else(denied)?),
        };
        let mark = short_hash(&id);
        let (resource, label) = if (&*path.group, &*path.plural) == (APIS, "apibindings") {
            let is_read = matches!(request.verb(path.name.is_some()), Verb::Get | Verb::List | Verb::Watch);
            (self.builtin(APIS, "apibindings").filter(|_| is_read), Some((BINDS.to_owned(), mark)))
        } else if let Some(resource) = export.resource(path) {
            (Some(resource.clone()), None)
        } else {
            let claimed = self.claimed(export, &scope, path, &mark);
            (claimed, Some((format!("{CLAIMED}/{mark}"), mark)))
        };
        let resource = resource.ok_or_else(|| match scope {
            Scope::Cluster(_) => denied(),
            _ => Failure::PageNotFound,
        })?;
        let view = self.view_of(resource, path, scope)?;
        let view = View { mark: label, is_virtual: true, ..view };
        match view.scope {
            Scope::Bound { .. } if self.clusters_bound(&id, shard).next().is_none() => self.unbound(view),
            _ => Ok(view),
        }
    }

    /// Everything that a virtual workspace serves.
    pub(crate) fn virtual_resources(&self, provider: &str, export: &str) -> Result<Vec<Arc<Resource>>, Failure> {
        let (_, export) = self.export_at(provider, export)?;
        let claimed = export.claims.iter().filter_map(|(group, plural)| self.builtin(group, plural));
        Ok(export.resources.iter().cloned().chain(self.builtin(APIS, "apibindings")).chain(claimed).collect())
    }

    fn export_at(&self, provider: &str, export: &str) -> Result<(Arc<str>, &Export), Failure> {
        let provider = self.cluster_at(&Place::Cluster(provider.to_owned()))?;
        let identity = identity(&Key::new(&provider, "", export));
        let export = self.exports.published.get(&identity).ok_or_else(|| forbidden("no such APIExport"))?;
        Ok((identity, export))
    }

    /// A logical cluster on a shard that binds an export.
    fn bound_cluster(&self, export: &Export, name: &str, shard: usize) -> Option<Arc<str>> {
        let here = self.clusters.get(name).is_some_and(|cluster| cluster.shard == shard);
        export.clusters.get(name).filter(|_| here).cloned()
    }

    /// A resource that the export claims; in one workspace only where that has accepted the claim.
    fn claimed(&self, export: &Export, scope: &Scope, path: &ResourcePath, mark: &str) -> Option<Arc<Resource>> {
        let claim = (path.group.clone(), path.plural.clone());
        let resource = self.builtin(&path.group, &path.plural).filter(|_| export.claims.contains(&claim))?;
        let Scope::Cluster(cluster) = scope else { return Some(resource) };
        let claim = (claim.0, claim.1, mark.to_owned());
        let is_accepted = self.clusters.get(cluster).is_some_and(|cluster| cluster.claims.contains(&claim));
        is_accepted.then_some(resource)
    }

    fn unbound(&self, view: View) -> Result<View, Failure> {
        match self.settings.unbound {
            Unbound::NotFound => Err(Failure::PageNotFound),
            Unbound::EmptyWithoutVersion => Ok(View { scope: Scope::Nothing, ..view }),
        }
    }
}

impl Export {
    fn resource(&self, path: &ResourcePath) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.is(&path.group, &path.plural))
    }
}

fn forbidden(why: &str) -> Failure {
    Failure::status(403, "Forbidden", format!("forbidden: {why}"))
}

/// The answer to a URL that names no logical cluster, or one by its path.
fn unresolved(request: &Request) -> Failure {
    let (user, path) = (request.user.to_string(), &request.path);
    let why = "Path not resolved to a valid virtual workspace";
    forbidden(&format!("User {user:?} cannot get path {path:?}: {why}"))
}
