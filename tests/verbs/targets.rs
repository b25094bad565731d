//! `sync-engine retarget` and `sync-engine uninstall --lost-target`, by the files of mappings.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::diff::UNREACHABLE;
use super::orphans::MAPPING;
use super::scene::Scene;

const PIN: &str = "target.sync-engine.dev/main.things";
const NONE: &str = "exit 0\nstderr:\nno such source is pinned to another target\n";
const FINALIZER: &str = "sync-engine.dev/main.things";

impl Scene {
    /// A source that the engine synced to these targets.
    fn pinned(&self, name: &str, pins: &str) {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {
            "name": name, "namespace": "default", "finalizers": [FINALIZER], "annotations": {PIN: pins},
        }});
        self.kcp.create(self.things(), &thing).expect("a source");
    }

    /// The source's pin, and whether it carries the engine's finalizer.
    fn pin(&self, name: &str) -> (Option<String>, bool) {
        let source = self.kcp.get(self.things(), "default", name).expect("a source");
        let finalizers = source["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let pin = source["metadata"]["annotations"][PIN].as_str().map(str::to_owned);
        (pin, finalizers.contains(&Value::from(FINALIZER)))
    }

    fn retarget(&self, flags: &[&str]) -> String {
        self.told("retarget", MAPPING, &self.target.kubeconfig(None), flags)
    }

    fn abandon(&self, target: &str, flags: &[&str]) -> String {
        let lost = ["--console", "off", "--lost-target", "target"];
        self.told_of("uninstall", &["--mappings", "ROOT/maps"], MAPPING, target, &[&lost[..], flags].concat())
    }

    /// The identity of the target, as pins have it.
    fn identity(&self) -> String {
        self.pinned("probe", "target=former");
        self.retarget(&["--yes"]);
        let (pin, _) = self.pin("probe");
        self.kcp.merge(self.things(), "default", "probe", &json!({"metadata": {"finalizers": []}})).expect("released");
        self.kcp.delete(self.things(), "default", "probe").expect("deleted");
        pin.expect("a pin").trim_start_matches("target=").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retarget_pins_the_sources_of_another_target_to_the_present_one() {
    let scene = Scene::of_two_consumers().await;
    let identity = scene.identity();
    let (former, present) = ("target=former".to_owned(), format!("target={identity}"));
    scene.pinned("moved", &former);
    scene.pinned("same", &present);
    assert_snapshot!("retarget-dry-run", scene.retarget(&[]).replace(&identity, "IDENTITY"));
    assert_eq!(scene.pin("moved"), (Some(former), true), "nothing was written");
    assert_eq!(scene.retarget(&["-n", "elsewhere", "--yes"]), NONE);
    assert_eq!(scene.retarget(&["-l", "tier=gold", "--yes"]), NONE);
    assert_snapshot!("retarget", scene.retarget(&["--yes", "-o", "text"]).replace(&identity, "IDENTITY"));
    assert_eq!(scene.pin("moved"), (Some(present.clone()), true));
    assert_eq!(scene.pin("same"), (Some(present), true));
    assert_eq!(scene.retarget(&[]), NONE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_target_is_abandoned_and_a_reachable_one_is_not() {
    let scene = Scene::of_two_consumers().await;
    let identity = scene.identity();
    let (former, present) = ("target=former".to_owned(), format!("target={identity}"));
    scene.pinned("lost", &former);
    scene.pinned("served", &present);
    scene.pinned("both", "other=x,target=former");
    scene.pinned("elsewhere", "other=x");
    let target = scene.target.kubeconfig(None);
    let shown = |flags: &[&str]| scene.abandon(&target, flags).replace(&identity, "IDENTITY");
    assert_snapshot!("lost-dry-run", shown(&[]));
    assert_eq!(scene.pin("lost"), (Some(former), true), "nothing was written");
    assert_snapshot!("lost", shown(&["--yes"]));
    assert_eq!(scene.pin("lost"), (None, false));
    assert_eq!(scene.pin("served"), (Some(present), true));
    assert_eq!(scene.pin("both"), (Some("other=x".to_owned()), true), "another target is pinned too");
    assert_eq!(scene.pin("elsewhere"), (Some("other=x".to_owned()), true));
    let stranger = scene.abandon(&target.replace(scene.target.token(), "unknown"), &["--yes"]);
    assert!(stranger.starts_with("exit 1\n") && stranger.contains("TargetUnidentified"), "{stranger}");
    assert!(scene.pin("served").1, "a server that refuses the credential is not lost");
    let unasked = scene.abandon(&target.replace("\"token\":", "\"tokenFile\":"), &["--yes"]);
    assert!(unasked.starts_with("exit 1\n") && unasked.contains("TargetUnidentified"), "{unasked}");
    assert!(scene.pin("served").1, "nor is one that was not asked, for want of a credential");
    assert!(scene.abandon(UNREACHABLE, &["--yes"]).contains("TargetUnreachable"));
    assert_eq!(scene.pin("served"), (None, false), "its target cannot be reached");
}
