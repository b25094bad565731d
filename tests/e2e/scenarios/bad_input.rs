//! What a user can get wrong: each a clear message that names what to do, and the right way to end, or not to.

use std::time::Duration;

use regex::Regex;
use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::credentials::NOBODY;
use crate::eventually::{eventually, throughout};
use crate::fleet::On;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_forbidden_target_and_a_forbidden_source_are_waited_for).on_both(),
        case!(an_object_without_bottom_keeps_nobody_else_waiting),
    ]
}

/// Compares what a user is told with the reviewed text.
fn tells(stage: &Stage, what: &str, text: &str) {
    let name = format!("{}-{}", what.replace(' ', "-"), stage.on.name());
    insta::with_settings!({prepend_module_to_snapshot => false}, { insta::assert_snapshot!(name, masked(stage, text)) });
}

/// A text without what differs from run to run: folders, ports, durations, and the names that a case has for itself.
fn masked(stage: &Stage, text: &str) -> String {
    let text = text.replace(&stage.folder.display().to_string(), "<folder>").replace(&stage.id, "<id>");
    let masks = [(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"), (r"not ready for \w+", "not ready for <time>")];
    masks.into_iter().fold(text, |text, (pattern, mask)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, mask).into_owned()
    })
}

/// API servers take JSON of any depth; what cannot be read is left as it was, and the neighbours are served.
async fn an_object_without_bottom_keeps_nobody_else_waiting(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create("it", json!({"size": 1})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 1})).await;

    let bottomless = (0..300).fold(json!(1), |inner, _| json!({"a": inner}));
    world.alpha.patch("it", json!({"spec": {"size": 2, "free": bottomless}})).await;
    engine.says(&["cannot be read", "127 levels"]).await;
    world.beta.create("it", json!({"size": 3})).await;
    world.target.has_spec(&world.beta, "it", json!({"size": 3})).await;
    assert_eq!(world.target.copy(&world.alpha, "it").await["spec"]["size"], 1);

    world.alpha.patch("it", json!({"spec": {"free": null}})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 2})).await;
    assert!(!engine.log().join("\n").contains("abnormally"), "nothing panicked");
}

async fn a_forbidden_target_and_a_forbidden_source_are_waited_for(stage: &Stage) {
    let world = stage.widgets().await;
    let kubeconfig = stage.fleet.kubernetes().await.target.kubeconfig(NOBODY);
    world.alpha.create("it", json!({"size": 1})).await;
    let mut engine = world.launch_at(&kubeconfig).start();
    let text = engine.becomes_unready("target target", "forbidden").await;
    tells(stage, "a forbidden target", &text);
    // It tries again, at a pace. An audit that records nothing would show no haste either.
    let tried = || world.target_requests_of_nobody().len();
    let before = tried();
    throughout(Duration::from_secs(5), "the engine stays up and does not hammer the server", async || {
        engine.is_running()?;
        let tried = tried() - before;
        (tried < 30).then_some(()).ok_or_else(|| format!("{tried} requests"))
    })
    .await;
    eventually("the audit records what the engine asked", async || {
        (tried() > 0).then_some(()).ok_or_else(|| "no request at all".to_owned())
    })
    .await;
    assert!(world.alpha.holds("it").await.is_empty(), "no promise is made for a target that nobody may write to");
    engine.kill();

    let mut engine = world.launch_powerless_at_the_source().await.start();
    let provider = if stage.on == On::Kcp { "APIExport" } else { "ClusterProvider" };
    let text = engine.becomes_unready(provider, "forbidden").await;
    tells(stage, "a forbidden source", &text);
    throughout(Duration::from_secs(2), "the engine stays up", async || engine.is_running()).await;
}
