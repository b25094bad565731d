//! Servers that take connections and give no answer: a process that was stopped, say.
//!
//! Watches alone would not show that. They wait for minutes, as they do where nothing happens.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use tokio::time::sleep;

use super::api_path::ApiPath;
use super::connection::Connection;
use super::environment::Reporter;
use super::request_error::RequestError;

/// An address that gave no answer for so long is asked. Servers tell the version to each watch about once a minute.
const SILENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(10);

/// Looks for good whether the addresses of a connection answer, and reports those that do not.
pub(crate) async fn look_for_silence(connection: Arc<Connection>, condition: Reporter) {
    let mut is_silent = false;
    loop {
        sleep(LOOK_AGAIN).await;
        let asked = connection.silent(SILENCE).into_iter().map(|endpoint| async move {
            let asked = endpoint.request(Method::GET, &ApiPath::version(), None, DEADLINE).await;
            // What cannot be reached at all is said by whoever uses it. A refusal is an answer.
            matches!(asked, Err(RequestError::AnswerLost { .. })).then(|| endpoint.url().to_owned())
        });
        let silent: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
        if !silent.is_empty() {
            is_silent = true;
            condition.report(Err(format!("no answer from {} for more than a minute", silent.join(", "))));
        } else if std::mem::take(&mut is_silent) {
            condition.withdraw();
            tracing::info!(connection = connection.name(), "every address answers again");
        }
    }
}
