use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::mapping::Selector;
use crate::mapping::compile::{Compiled, compile};
use crate::mapping::document::{
    HubSpec, KubeconfigProviderSpec, KubeconfigSecretsSpec, NamespacesProviderSpec, WorkspaceTypesSpec,
};
use crate::yaml;

fn mapping(text: &str) -> Arc<Mapping> {
    let document = yaml::parse_one(text).expect("a document");
    match compile(&document).compiled {
        Some(Compiled::Mapping(mapping)) => mapping,
        other => panic!("{other:?}"),
    }
}

const SHIPPED: &str = include_str!("../../mappings/mongodb.yaml");

fn of(mappings: &[Arc<Mapping>]) -> Rights {
    of_fleet(mappings, ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: "edge".to_owned() }))
}

fn of_fleet(mappings: &[Arc<Mapping>], provider: ProviderKind) -> Rights {
    let mut schemas = Schemas::default();
    schemas.add_file(include_bytes!("../../schemas/mongodb/crd.yaml"));
    let setting = Setting {
        schemas: &schemas,
        inventory_namespace: "sync-engine",
        providers: BTreeMap::from([("fleet".to_owned(), provider)]),
        home: "target",
        leases: &[],
        events: false,
    };
    rights(mappings.iter().map(|mapping| &**mapping), &setting)
}

fn shown(rules: &[Rule]) -> String {
    let line = |rule: &Rule| {
        let what = if rule.urls.is_empty() { format!("{}/{}", rule.group, rule.resource) } else { rule.urls.join(",") };
        let names = if rule.names.is_empty() { String::new() } else { format!(" {}", rule.names.join(",")) };
        format!("{what}{names}: {} ({})\n", rule.verbs.join(" "), rule.why)
    };
    rules.iter().map(line).collect()
}

#[test]
fn who_only_looks_needs_no_writes() {
    let text = SHIPPED.replace("spec:\n  description", "spec:\n  mode: Observe\n  description");
    let rights = of(&[mapping(&text)]);
    let all = rights.places.values().chain(rights.claims.values()).flatten();
    let verbs: BTreeSet<&String> = all.filter(|rule| rule.namespace.is_none()).flat_map(|rule| &rule.verbs).collect();
    assert_eq!(Vec::from_iter(verbs), ["access", "get", "list", "watch"], "but for the state store");
}

/// Objects of other resources than Secrets and ConfigMaps are not copied.
#[test]
fn what_is_only_read_is_a_right_where_it_is() {
    let text = SHIPPED.replacen(
        "  related:\n",
        "  related:
    - {id: quota, direction: ToTarget, resource: quotas.v1.example.dev, from: {name: quota}}
    - {id: machine, direction: ToSource, resource: machines.v1.example.dev, from: {name: machine}}
",
        1,
    );
    let rights = of(&[mapping(&text)]);
    let read = |rules: &[Rule]| {
        shown(rules).lines().filter(|line| line.starts_with("example.dev/")).map(str::to_owned).collect::<Vec<_>>()
    };
    let target = read(&rights.places[&Place::Target("target".to_owned())]);
    assert_eq!(target, ["example.dev/machines: get list watch (mapping mongodb: related machine)"]);
    let claims: Vec<_> = rights.claims.values().flat_map(|rules| read(rules)).collect();
    assert_eq!(claims, ["example.dev/quotas: get list watch (mapping mongodb: related quota)"]);
}

#[test]
fn home_is_told_from_other_clusters_where_no_mapping_writes_to_it() {
    let rights = of(&[mapping(include_str!("../../examples/fleet/mappings/hub-and-spoke.yaml"))]);
    let home = shown(&rights.places[&Place::Target("target".to_owned())]);
    assert!(home.contains("/namespaces default,kube-system,sync-engine: get "), "{home}");
}

#[test]
fn a_cluster_that_is_a_source_is_asked_for_its_own() {
    let text = SHIPPED
        .replace("apiExport: {name: mongodb, path: root:mongodb}", "provider: fleet")
        .replace("kind: Role\n          name: mongodb-database", "kind: ClusterRole\n          name: view");
    let rights = of(&[mapping(&text)]);
    insta::assert_snapshot!(shown(&rights.places[&Place::Source("edge".to_owned())]));
    let target = shown(&rights.places[&Place::Target("target".to_owned())]);
    assert!(target.contains("rbac.authorization.k8s.io/clusterroles view: bind"), "{target}");
}

/// Its roles have one name, so that those of a second place would replace those of the first.
#[test]
fn a_cluster_that_is_target_source_and_hub_is_one_place() {
    let text = SHIPPED.replace("apiExport: {name: mongodb, path: root:mongodb}", "provider: fleet");
    let (connection, selector) = ("target".to_owned(), Selector::default());
    let source = ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: connection.clone() });
    let (namespace, key) = ("fleet".to_owned(), "kubeconfig".to_owned());
    let hub = ProviderKind::KubeconfigSecrets(KubeconfigSecretsSpec { connection, namespace, selector, key });
    let target = Place::Target("target".to_owned());
    for (provider, right) in [(source, "its sources"), (hub, "where its clusters are")] {
        let places = of_fleet(&[mapping(&text)], provider).places;
        let at_target = shown(&places[&target]);
        assert!(at_target.contains(right) && at_target.contains("the state store"), "{at_target}");
        assert!(places.keys().all(|place| matches!(place, Place::Target(_) | Place::Fleet(_))), "{:?}", places.keys());
    }
}

/// Whether the definition of their kind is gone decides whether a deletion waits for them.
#[test]
fn a_cluster_that_has_the_objects_beside_its_sources_is_asked_for_their_definitions() {
    let text = "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {name: gadgets}\nspec:\n  \
                source: {provider: fleet, resource: things.v1.example.com}\n  target: {cluster: source}\n  \
                objects:\n    - {id: gadget, template: {apiVersion: example.com/v1, kind: Gadget}}\n";
    let rights = of(&[mapping(text)]);
    let source = shown(&rights.places[&Place::Source("edge".to_owned())]);
    for right in ["/apis/*: get (", "apiextensions.k8s.io/customresourcedefinitions gadgets.example.com: get ("] {
        assert!(source.contains(right), "{source}");
    }
    let target = shown(&rights.places[&Place::Target("target".to_owned())]);
    assert!(!target.contains("customresourcedefinitions"), "{target}");
}

#[test]
fn what_a_role_beside_its_source_hands_on_is_no_right_at_home() {
    let text = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: roles}
spec:
  source: {apiExport: {name: offers, path: root:offers}, resource: offers.v1.example.com}
  target: {cluster: source}
  objects:
    - id: role
      template:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
";
    let grants = |text: &str| {
        let mut places = of(&[mapping(text)]).places;
        places.retain(|_, rules| shown(rules).contains("/secrets: get (mapping roles: object role hands it on)"));
        places.into_keys().collect::<Vec<_>>()
    };
    assert!(grants(text).is_empty());
    let plain = text.replace("apiExport: {name: offers, path: root:offers}", "provider: fleet");
    assert_eq!(grants(&plain), [Place::Source("edge".to_owned())]);
}

#[test]
fn a_hub_lets_its_list_of_clusters_be_read_and_each_cluster_its_sources() {
    let text = SHIPPED.replace("apiExport: {name: mongodb, path: root:mongodb}", "provider: fleet");
    let (connection, selector) = ("hub".to_owned(), Selector::default());
    let of = |kind| of_fleet(&[mapping(&text)], kind).places;
    let namespace = "fleet".to_owned();
    let key = "kubeconfig".to_owned();
    let places = of(ProviderKind::KubeconfigSecrets(KubeconfigSecretsSpec {
        connection: connection.clone(),
        namespace,
        selector: selector.clone(),
        key,
    }));
    let hub = &places[&Place::Hub("hub".to_owned())];
    assert_eq!(hub[0].namespace.as_deref(), Some("fleet"));
    insta::assert_snapshot!(shown(hub), @"/secrets: list watch (ClusterProvider fleet: where its clusters are)");
    assert!(shown(&places[&Place::Fleet("fleet".to_owned())]).contains("its sources"));
    let namespaces = NamespacesProviderSpec { connection: connection.clone(), selector: selector.clone() };
    let places = of(ProviderKind::Namespaces(namespaces));
    let listed = "/namespaces: list watch (ClusterProvider fleet: where its clusters are)";
    assert!(shown(&places[&Place::Source("hub".to_owned())]).contains(listed));
    let listing = HubSpec { connection, namespace: Some("fleet".to_owned()), selector };
    let places = of(ProviderKind::ClusterInventory(listing.clone()));
    let hub = &places[&Place::Hub("hub".to_owned())];
    assert_eq!(hub[0].namespace.as_deref(), Some("fleet"));
    insta::assert_snapshot!(shown(hub), @"multicluster.x-k8s.io/clusterprofiles: list watch (ClusterProvider fleet: where its clusters are)");
    let team = WorkspaceType { workspace: "root:types".to_owned(), name: "team".to_owned() };
    let types =
        WorkspaceTypesSpec { connection: "kcp".to_owned(), initializing: Some(team.clone()), terminating: Some(team) };
    let places = of(ProviderKind::WorkspaceTypes(types));
    let home = Place::Provider { connection: "kcp".to_owned(), path: Some("root:types".to_owned()) };
    insta::assert_snapshot!(shown(&places[&home]), @"
    /: access (enters the workspace)
    tenancy.kcp.io/workspacetypes team: list watch initialize terminate (ClusterProvider fleet: where its clusters are)
    ");
    let places = of(ProviderKind::ClusterApi(HubSpec { namespace: None, ..listing }));
    insta::assert_snapshot!(shown(&places[&Place::Hub("hub".to_owned())]), @r"
    cluster.x-k8s.io/clusters: list watch (ClusterProvider fleet: where its clusters are)
    /secrets: list watch (ClusterProvider fleet: where its clusters are, their kubeconfigs)
    ");
}

#[test]
fn documents_grant_what_is_listed() {
    let rules = [
        Rule { namespace: Some("notes".to_owned()), ..rule("", "configmaps", &["get"], "") },
        urls(&["/apis/*"], ""),
        Rule { names: texts(&["a"]), ..rule("g", "things", &["list"], "") },
    ];
    let subject = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "engine".to_owned() };
    let documents = roles(&rules, "sync-engine", &subject);
    let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
    assert_eq!(
        documents[1]["rules"],
        json!([
            {"nonResourceURLs": ["/apis/*"], "verbs": ["get"]},
            {"apiGroups": ["g"], "resources": ["things"], "resourceNames": ["a"], "verbs": ["list"]},
        ])
    );
    assert_eq!(documents[4]["metadata"], json!({"name": "sync-engine", "namespace": "notes"}));
    assert_eq!(documents[4]["subjects"], json!([{"kind": "ServiceAccount", "namespace": "ns", "name": "engine"}]));
}
