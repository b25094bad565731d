//! The clusters of a cluster inventory: ClusterProfiles of a hub (KEP-4322), reached by way of their access providers (KEP-5339).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::discovery::{Collection, LOOK_AGAIN, changed, home, settled};
use super::hub::{self, HeldKubeconfigs};
use crate::Endpoint;
use crate::connection::{Held, listed};
use crate::directory::Reading;
use crate::environment::{Listed, Members};
use crate::watch::Watches;
use sync_engine_mapping::document::HubSpec;
use sync_engine_mapping::object::metadata;
use sync_engine_mapping::{Resource, Traits};

/// What a ClusterProfile says about its cluster and the engine uses. Whether certificates are verified, and which files are
/// read, is no business of the hub.
const OF_CLUSTER: [&str; 4] = ["server", "certificate-authority-data", "tls-server-name", "proxy-url"];

/// The extension of a cluster that its exec plugin is given as `spec.cluster.config`.
const PLUGIN_CONFIGURATION: &str = "client.authentication.k8s.io/exec";
/// The extension of a cluster with arguments for the plugin (KEP-5339).
const MORE_ARGUMENTS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";

/// Every `ClusterProfile` of a hub that was healthy once.
pub struct ClusterInventory {
    profiles: Collection,
    access_providers: PathBuf,
    reading: Reading<Result<Vec<u8>, String>>,
    held: HeldKubeconfigs,
}

impl ClusterInventory {
    pub fn new(hub: &Endpoint, of: &HubSpec, access_providers: &Path, watches: &Arc<Watches>) -> Self {
        let profiles = Resource::new("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles");
        let profiles = Collection::follow(watches, home(hub), &[profiles], hub::selectors(of));
        let (access_providers, reading) = (access_providers.into(), Reading::default());
        Self { profiles, access_providers, reading, held: HeldKubeconfigs::default() }
    }
}

impl Members for ClusterInventory {
    async fn look(&mut self) -> Result<Listed, String> {
        let (path, file) = (self.access_providers.clone(), self.access_providers.display());
        let text = self.reading.of(move || std::fs::read(path).map_err(|error| error.to_string())).await;
        let text = text.flatten().map_err(|why| format!("cannot read the access providers {file}: {why}"))?;
        let access = serde_json::from_slice(&text).map_err(|error| format!("access providers {file}: {error}"));
        let access: AccessProviders = access?;
        let profiles = self.profiles.objects("ClusterProfiles (multicluster.x-k8s.io/v1alpha1)").await?;
        let member = |profile: &Value| {
            self.held.member(profile, is_healthy(profile), || (traits_of(profile), access.kubeconfig(profile)))
        };
        let members = profiles.iter().filter_map(member).collect();
        Ok(self.held.list(members))
    }

    async fn changed(&mut self) {
        settled(changed([&mut self.profiles]), LOOK_AGAIN).await;
    }
}

/// The labels of a profile, and the properties that its status tells. A status without properties may be one that is not
/// written yet, or was not restored.
fn traits_of(profile: &Value) -> Traits {
    let properties = profile["status"]["properties"].as_array().map(|properties| {
        let text = |one: &Value, field: &str| Some(one[field].as_str()?.to_owned());
        properties.iter().filter_map(|one| Some((text(one, "name")?, text(one, "value")?))).collect()
    });
    Traits { properties, ..hub::traits(profile) }
}

fn is_healthy(profile: &Value) -> bool {
    let conditions = profile["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "ControlPlaneHealthy" && condition["status"] == "True")
}

/// The file that says which program gives the credential for each access provider.
#[derive(Debug, Deserialize)]
struct AccessProviders {
    providers: Vec<AccessProvider>,
}

/// One access provider, as cluster-inventory-api's `--clusterprofile-provider-file` has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessProvider {
    name: String,
    /// As in a kubeconfig.
    exec_config: Map<String, Value>,
    #[serde(default, rename = "profileSourcedCLIArgsPolicy")]
    arguments: ArgumentsOfProfile,
    /// No text but `Ignore` is taken: a variable such as PATH would choose the program.
    #[serde(default, rename = "profileSourcedEnvVarsPolicy")]
    _variables: VariablesOfProfile,
}

/// What becomes of arguments that a ClusterProfile has for the plugin.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
enum ArgumentsOfProfile {
    #[default]
    #[serde(alias = "")]
    Ignore,
    Append,
}

/// What becomes of environment variables that a ClusterProfile has for the plugin.
#[derive(Debug, Default, Deserialize)]
enum VariablesOfProfile {
    #[default]
    #[serde(alias = "")]
    Ignore,
}

impl AccessProviders {
    /// The address comes from the profile, and the program that gives the credential from the file.
    fn kubeconfig(&self, profile: &Value) -> Result<Held, String> {
        let origin = format!("ClusterProfile {}/{}", metadata(profile, "namespace"), metadata(profile, "name"));
        let offered = offered(profile);
        let usable = |access: &&AccessProvider| offered.contains_key(access.name.as_str());
        let access = self.providers.iter().find(usable).ok_or_else(|| {
            let offered = listed(offered.keys().copied());
            format!("{origin}: the file of `--access-providers` names none of its access providers ({offered})")
        })?;
        let cluster = offered[access.name.as_str()];
        let named = |field: &str, value: Value| json!([{"name": "profile", field: value}]);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "profile",
            "clusters": named("cluster", address(cluster)),
            "users": named("user", json!({"exec": access.plugin(cluster)?})),
            "contexts": named("context", json!({"cluster": "profile", "user": "profile"})),
        });
        Ok(Held::with_local_user(origin, text.to_string()))
    }
}

impl AccessProvider {
    fn plugin(&self, cluster: &Value) -> Result<Value, String> {
        let mut plugin = self.exec_config.clone();
        plugin.insert("interactiveMode".to_owned(), "Never".into());
        if let (ArgumentsOfProfile::Append, Some(more)) = (&self.arguments, extension(cluster, MORE_ARGUMENTS)) {
            let more: Vec<String> = serde_json::from_value(more.clone())
                .map_err(|_| format!("the extension `{MORE_ARGUMENTS}` of a ClusterProfile is no list of texts"))?;
            let given = plugin.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
            plugin.insert("args".to_owned(), given.into_iter().chain(more.into_iter().map(Value::from)).collect());
        }
        Ok(Value::Object(plugin))
    }
}

/// The clusters that a profile offers, by access provider. Older inventories call them credential providers.
fn offered(profile: &Value) -> BTreeMap<&str, &Value> {
    let listed = |field: &str| profile["status"][field].as_array().into_iter().flatten();
    let all = listed("credentialProviders").chain(listed("accessProviders"));
    all.filter_map(|one| Some((one["name"].as_str()?, &one["cluster"]))).collect()
}

/// What of a profile's cluster goes into a kubeconfig.
fn address(cluster: &Value) -> Value {
    let given = OF_CLUSTER.into_iter().filter(|field| !cluster[field].is_null());
    let mut address: Map<String, Value> = given.map(|field| (field.to_owned(), cluster[field].clone())).collect();
    if let Some(configuration) = extension(cluster, PLUGIN_CONFIGURATION) {
        let extension = json!({"name": PLUGIN_CONFIGURATION, "extension": configuration});
        address.insert("extensions".to_owned(), json!([extension]));
    }
    Value::Object(address)
}

fn extension<'c>(cluster: &'c Value, name: &str) -> Option<&'c Value> {
    let mut extensions = cluster["extensions"].as_array().into_iter().flatten();
    extensions.find(|extension| extension["name"] == name).map(|extension| &extension["extension"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::PATIENCE;
    use crate::health::Health;
    use crate::registry::tests::connection;
    use sync_engine_mapping::Selector;

    /// A pipe that nobody writes to is a file on a mount that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_file_of_access_providers_that_hangs_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access-providers");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (hub, watches) = (connection().endpoint(), Watches::new(Health::default()));
        let all = HubSpec { connection: "hub".to_owned(), namespace: None, selector: Selector::default() };
        let mut inventory = ClusterInventory::new(&hub, &all, &path, &watches);
        let (looked, ()) = tokio::join!(inventory.look(), tokio::time::advance(PATIENCE));
        let why = looked.unwrap_err();
        assert!(why.ends_with("/access-providers: its file system has not answered for 30 s"), "{why}");
        std::fs::write(&path, "").expect("whoever waits for it reads it");
    }

    fn access(text: Value) -> AccessProviders {
        serde_json::from_value(text).unwrap()
    }

    fn profile(status: Value) -> Value {
        json!({"metadata": {"namespace": "fleet", "name": "one"}, "status": status})
    }

    fn shown(access: &AccessProviders, status: Value) -> String {
        access.kubeconfig(&profile(status)).map_or_else(
            |why| why,
            |kubeconfig| {
                let config: Value = serde_json::from_str(&kubeconfig.text()).unwrap();
                format!("{} {}", config["clusters"][0]["cluster"], config["users"][0]["user"]["exec"])
            },
        )
    }

    #[test]
    fn a_profile_says_where_its_cluster_is_and_never_which_program_runs() {
        let access = access(json!({"providers": [
            {"name": "other", "execConfig": {"command": "other"}},
            {"name": "secret", "execConfig": {"command": "read-secret", "args": null, "provideClusterInfo": true}},
        ]}));
        let extensions = json!([
            {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "one"}},
            {"name": MORE_ARGUMENTS, "extension": ["--evil"]},
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": {"PATH": "/evil"}},
        ]);
        let cluster = json!({
            "server": "https://one", "certificate-authority": "/etc/passwd", "insecure-skip-tls-verify": true,
            "extensions": extensions, "exec": {"command": "evil"},
        });
        let status =
            json!({"accessProviders": [{"name": "secret", "cluster": cluster, "execConfig": {"command": "evil"}}]});
        insta::assert_snapshot!(shown(&access, status), @r#"{"extensions":[{"extension":{"clusterName":"one"},"name":"client.authentication.k8s.io/exec"}],"server":"https://one"} {"args":null,"command":"read-secret","interactiveMode":"Never","provideClusterInfo":true}"#);
        let of = |name: &str, server: &str| json!([{"name": name, "cluster": {"server": server}}]);
        let both =
            json!({"credentialProviders": of("secret", "https://old"), "accessProviders": of("secret", "https://new")});
        insta::assert_snapshot!(shown(&access, both), @r#"{"server":"https://new"} {"args":null,"command":"read-secret","interactiveMode":"Never","provideClusterInfo":true}"#);
        let older =
            json!({"credentialProviders": of("other", "https://old"), "accessProviders": of("secret", "https://new")});
        insta::assert_snapshot!(shown(&access, older), @r#"{"server":"https://old"} {"command":"other","interactiveMode":"Never"}"#);
        insta::assert_snapshot!(shown(&access, json!({"accessProviders": of("unknown", "https://one")})), @"ClusterProfile fleet/one: the file of `--access-providers` names none of its access providers (unknown)");
        insta::assert_snapshot!(shown(&access, json!({})), @"ClusterProfile fleet/one: the file of `--access-providers` names none of its access providers (none)");
    }

    #[test]
    fn arguments_of_a_profile_are_taken_where_the_file_says_so_and_variables_never() {
        let file = |policy: &str, value: &str| {
            let mut provider = json!({"name": "secret", "execConfig": {"command": "read-secret", "args": ["-v"]}});
            provider[policy] = value.into();
            serde_json::from_value::<AccessProviders>(json!({"providers": [provider]}))
        };
        let cluster = |arguments: Value| {
            let extensions = json!([{"name": MORE_ARGUMENTS, "extension": arguments}]);
            json!({"accessProviders": [{"name": "secret", "cluster": {"extensions": extensions}}]})
        };
        let append = file("profileSourcedCLIArgsPolicy", "Append").unwrap();
        insta::assert_snapshot!(shown(&append, cluster(json!(["--cluster", "one"]))), @r#"{} {"args":["-v","--cluster","one"],"command":"read-secret","interactiveMode":"Never"}"#);
        insta::assert_snapshot!(shown(&append, cluster(json!("--cluster"))), @"the extension `clusterprofiles.multicluster.x-k8s.io/exec/additional-args` of a ClusterProfile is no list of texts");
        for value in ["", "Ignore"] {
            let ignored = file("profileSourcedCLIArgsPolicy", value).unwrap();
            assert!(!shown(&ignored, cluster(json!(["--cluster", "one"]))).contains("--cluster"));
            file("profileSourcedEnvVarsPolicy", value).unwrap();
        }
        for value in ["AppendIfNotExists", "Replace"] {
            let refused = file("profileSourcedEnvVarsPolicy", value).unwrap_err().to_string();
            assert!(refused.contains("unknown variant") && refused.contains("Ignore"), "{refused}");
        }
    }

    #[test]
    fn a_status_without_properties_says_nothing_of_them() {
        let properties = |status: Value| traits_of(&profile(status)).properties;
        assert_eq!((properties(json!({})), properties(json!({"properties": null}))), (None, None));
        assert_eq!(properties(json!({"properties": []})), Some(BTreeMap::new()));
        let given = json!([
            {"name": "cluster.clusterset.k8s.io", "value": "east", "lastObservedTime": "2026-01-01T00:00:00Z"},
            {"name": "half"},
        ]);
        let east = BTreeMap::from([("cluster.clusterset.k8s.io".to_owned(), "east".to_owned())]);
        assert_eq!(properties(json!({"properties": given})), Some(east));
    }

    #[test]
    fn a_cluster_counts_once_it_is_known_to_be_healthy() {
        let healthy = |status: &str| {
            is_healthy(&profile(json!({"conditions": [{"type": "ControlPlaneHealthy", "status": status}]})))
        };
        assert!(healthy("True") && !healthy("False") && !healthy("Unknown"));
        assert!(!is_healthy(&profile(json!({}))) && !is_healthy(&profile(json!({"conditions": null}))));
    }
}
