//! What the admission of one tenant's own workspace costs the others: nothing.

use std::time::Duration;

use serde_json::json;

use super::beside::path;
use crate::case::{Case, Stage, case};
use crate::eventually::{eventually, within};
use crate::webhook::{Answer, Webhook};
use crate::world::World;

/// A tenant waits for so long where another one pauses or holds what they share. Each of the two cases below lasts longer.
const SOON: Duration = Duration::from_secs(25);

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_webhook_that_says_when_to_come_again_pauses_nobody_else).on_kcp(),
        case!(a_webhook_that_does_not_answer_holds_nobody_elses_writes).on_kcp(),
    ]
}

async fn is_served(world: &World<'_>, name: &str) {
    let beta = &world.beta;
    beta.create(name, json!({"size": 1})).await;
    within(SOON, &format!("{name} of the other tenant is served"), async || {
        beta.rest.get(&path(beta, name)).await.map(drop).ok_or_else(|| "it has no object".to_owned())
    })
    .await;
}

/// Creates sources until the webhook is asked: its configuration takes a moment to be in force. How many there are.
async fn is_asked(world: &World<'_>, webhook: &Webhook) -> usize {
    webhook.guard(&world.alpha.rest).await;
    let mut number = 0;
    eventually("the webhook is asked", async || {
        number += 1;
        world.alpha.create(&format!("guarded-{number}"), json!({"size": 1})).await;
        (webhook.asked() > 0).then_some(()).ok_or_else(|| "it is not".to_owned())
    })
    .await;
    number
}

async fn a_webhook_that_says_when_to_come_again_pauses_nobody_else(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.beside().await;
    let _engine = world.engine().await;
    is_served(&world, "before").await;
    let webhook = Webhook::serve(Answer::Refuses { retry_after: Duration::from_secs(60) }).await;
    let number = is_asked(&world, &webhook).await;
    is_served(&world, "after").await;
    world.alpha.synced(&format!("guarded-{number}"), "False", "Refused").await;
}

async fn a_webhook_that_does_not_answer_holds_nobody_elses_writes(stage: &Stage) {
    /// Twice as many as an address takes at one time.
    const SOURCES: usize = 16;
    let world = stage.unmapped(true).await;
    world.beside().await;
    let _engine = world.engine().await;
    is_served(&world, "before").await;
    let webhook = Webhook::serve(Answer::Never).await;
    let number = is_asked(&world, &webhook).await;
    for more in number + 1..number + SOURCES {
        world.alpha.create(&format!("guarded-{more}"), json!({"size": 1})).await;
    }
    is_served(&world, "after").await;
}
