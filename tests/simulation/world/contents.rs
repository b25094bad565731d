//! What is in a world: its sources, the objects on its target, and what both are called.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::action::{SourceRef, TENANTS, VERSIONS};
use super::super::checker::RECORDS;
use super::super::mapping::{KINDS, WIDGET, placement, url};
use super::super::server::{GROUP, RESOURCES, Side, accepts, api_url, binding_url, has_edition, items, workspace_url};
use super::World;

/// A source, as servers speak of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    pub cluster: String,
    pub resource: &'static str,
    pub namespace: String,
    pub name: String,
}

/// The field of an object that says which target it is on.
const AT: &str = "at";

/// The server that an object is on.
pub fn side_of(object: &Value) -> Side {
    object[AT].as_str().map_or(Side::Source, Side::of_host)
}

pub fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

impl World {
    /// Every source there is of either resource.
    pub fn sources(&self) -> BTreeMap<SourceKey, Value> {
        let mut sources = BTreeMap::new();
        for tenant in self.tenants() {
            let cluster = self.cluster(tenant);
            for (resource, _) in RESOURCES {
                let list = self.get(Side::Source, &self.sources_url(tenant, resource)).unwrap_or_default();
                for ((namespace, name), source) in items(&list) {
                    sources.insert(SourceKey { cluster: cluster.clone(), resource, namespace, name }, source);
                }
            }
        }
        sources
    }

    /// Every object of the kinds that mappings make, where they make them: on the target, or beside the sources.
    pub fn target_objects(&self) -> Vec<Value> {
        if self.plan.is_beside {
            return self.beside();
        }
        [Side::Target, Side::Second].into_iter().flat_map(|target| self.objects_at(target)).collect()
    }

    /// Those of them on one target.
    pub fn objects_at(&self, target: Side) -> Vec<Value> {
        let all = KINDS.iter().flat_map(|(kind, _)| {
            let place = url(kind, "", "");
            let place = if *kind == WIDGET.kind { self.of_widgets(&place) } else { place };
            self.objects(target, &place, kind)
        });
        all.filter(|object| text(object, "namespace") != RECORDS).collect()
    }

    /// The objects of a kind in a list.
    fn objects(&self, side: Side, url: &str, kind: &str) -> Vec<Value> {
        let list = self.get(side, url).unwrap_or_default();
        let mut objects: Vec<Value> = items(&list).into_values().collect();
        for object in &mut objects {
            object["kind"] = kind.into();
            object[AT] = side.name().into();
        }
        objects
    }

    /// The URL of Widgets in a version that is served.
    pub(super) fn of_widgets(&self, url: &str) -> String {
        let version = VERSIONS.into_iter().find(|version| self.versions.serves(version)).unwrap_or(VERSIONS[0]);
        url.replace(&format!("/{}/", VERSIONS[0]), &format!("/{version}/"))
    }

    /// Every object of these kinds beside the sources.
    pub fn beside(&self) -> Vec<Value> {
        let kinds = |tenant: &str| KINDS.map(|(kind, _)| (self.prefix(tenant) + &url(kind, "", ""), kind));
        let lists = self.tenants().iter().flat_map(|tenant| kinds(tenant));
        lists.flat_map(|(list, kind)| self.objects(Side::Source, &list, kind)).collect()
    }

    /// The Secrets beside the sources, by cluster and name.
    pub fn secrets(&self) -> BTreeMap<(String, String), Value> {
        let of_tenant = |tenant: &&str| {
            let cluster = self.cluster(tenant);
            let list = self.get(Side::Source, &self.secret_url(tenant, "")).unwrap_or_default();
            items(&list).into_iter().map(move |((_, name), secret)| ((cluster.clone(), name), secret))
        };
        self.tenants().iter().flat_map(of_tenant).collect()
    }

    /// Whether the engine may use the Secrets of a cluster.
    pub fn is_claimed(&self, cluster: &str) -> bool {
        let accepts = |tenant: &&str| {
            let binding = self.get(Side::Source, &binding_url(tenant));
            self.cluster(tenant) == cluster && binding.is_some_and(|binding| accepts(&binding))
        };
        !self.plan.is_kcp || TENANTS.iter().any(accepts)
    }

    /// The cluster that a tenant's objects are in, as the engine names it.
    pub fn cluster(&self, tenant: &str) -> String {
        if !self.plan.is_kcp {
            return "plain".into();
        }
        let workspace = self.get(Side::Source, &workspace_url(tenant)).unwrap_or_default();
        workspace["spec"]["cluster"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether a cluster is one that engines serve: its workspace is there, and bound.
    pub fn is_served(&self, cluster: &str) -> bool {
        let is_bound =
            |tenant: &&str| self.cluster(tenant) == cluster && self.get(Side::Source, &binding_url(tenant)).is_some();
        !self.plan.is_kcp || TENANTS.iter().any(is_bound)
    }

    /// The identity of a cluster of sources, as ownership annotations tell it. A plain cluster that is rebuilt is another one.
    pub fn identity(&self, cluster: &str) -> String {
        if self.plan.is_kcp {
            return cluster.to_owned();
        }
        let system = self.get(Side::Source, "/api/v1/namespaces/kube-system");
        system.map(|namespace| text(&namespace, "uid")).unwrap_or_default()
    }

    /// Whether the API of the sources has the field `status.edition` now.
    pub fn has_edition(&self) -> bool {
        self.get(Side::Source, api_url(self.plan.is_kcp)).is_some_and(|api| has_edition(&api))
    }

    /// Where today's rule puts the objects of a source.
    pub(super) fn namespace(&self, source: SourceRef) -> String {
        if self.plan.is_beside {
            return "default".to_owned();
        }
        format!("{}{}", placement(&self.identity(&self.cluster(source.tenant)), "default"), self.mapping.namespace)
    }

    /// The server and the URL of an object that a mapping makes.
    pub(super) fn object_url(&self, tenant: &str, kind: &str, namespace: &str, name: &str) -> (Side, String) {
        let place = url(kind, namespace, name);
        match self.plan.is_beside {
            true => (Side::Source, format!("{}{place}", self.prefix(tenant))),
            false => (Side::Target, place),
        }
    }

    /// The tenants there are.
    pub(super) fn tenants(&self) -> &'static [&'static str] {
        if self.plan.is_kcp { &TENANTS } else { &TENANTS[..1] }
    }

    fn prefix(&self, tenant: &str) -> String {
        if self.plan.is_kcp { format!("/clusters/root:{tenant}") } else { String::new() }
    }

    pub(super) fn secret_url(&self, tenant: &str, name: &str) -> String {
        self.prefix(tenant) + &url("Secret", "default", name)
    }

    pub(super) fn sources_url(&self, tenant: &str, resource: &str) -> String {
        format!("{}/apis/{GROUP}/v1/namespaces/default/{resource}", self.prefix(tenant))
    }

    pub(super) fn source_url(&self, source: SourceRef) -> String {
        format!("{}/{}", self.sources_url(source.tenant, source.resource), source.name)
    }
}
