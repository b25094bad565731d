//! Whether a target would take what is rendered: server-side dry runs.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::Value;

use super::{Scene, Unseen};
use crate::mapping::Kind;
use crate::multicluster::{ApiPath, RequestError};
use crate::object::marks;
use crate::plan::{Action, Intent};

/// Where an object is tried whose own namespace is not there yet.
const STAND_IN: &str = "default";

/// An object that would be refused.
pub struct Refused {
    /// Its id in the mapping.
    pub object: String,
    /// The server's words.
    pub why: String,
}

impl Scene<'_> {
    /// Tries everything that would be written for a source.
    ///
    /// # Errors
    /// Where the target cannot be asked.
    pub async fn refusals(&self, source: &Arc<Value>) -> Result<Vec<Refused>, Unseen> {
        let rehearsed = self.rehearse(source).await?;
        let mut refused = Vec::new();
        for write in &rehearsed.writes {
            if let Action::Apply { body, intent, .. } = &write.action
                && let Err(error) = self.dry_run(body, intent).await?
            {
                let object = marks::annotation(body, marks::OBJECT).unwrap_or_default().to_owned();
                // A server quotes what it refuses, and a Secret's values are for nobody here.
                let is_secret = body["kind"] == "Secret";
                let why = if is_secret { "its content is refused".to_owned() } else { error.to_string() };
                refused.push(Refused { object, why });
            }
        }
        Ok(refused)
    }

    /// The inner result is the server's verdict; a right that lacks is said elsewhere.
    async fn dry_run(&self, body: &Value, intent: &Intent) -> Result<Result<(), RequestError>, Unseen> {
        let text = |field: &str| crate::object::metadata(body, field).to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        let is_its = |kind: &Kind| body["kind"] == kind.kind && body["apiVersion"] == kind.api_version();
        let kind = self.target.kinds.iter().find(|(kind, _)| is_its(kind));
        let Some((_, Ok(served))) = kind else { return Ok(Ok(())) };
        let mut body = body.clone();
        let writer = self.surveyor.writer(self.mapping);
        let force = *intent != Intent::Create;
        let mut sent = Err(RequestError::NotServed { url: self.target.endpoint.url().to_owned() });
        for place in [&*namespace, STAND_IN] {
            body["metadata"]["namespace"] = place.into();
            let path = ApiPath::object(&served.resource, place, &name).map_err(RequestError::from)?;
            let (path, text) = (path.query("dryRun", "All"), Bytes::from(body.to_string()));
            sent = self.target.endpoint.apply(&path, writer.field_manager(), force, text).await;
            if !sent.as_ref().is_err_and(|error| error.is_not_found_of(&namespace)) {
                break;
            }
        }
        match sent {
            Ok(_) => Ok(Ok(())),
            // Rights are checked elsewhere; a dry run makes nothing that the next one could refer to (a Role, for its binding).
            Err(error) if error.is_forbidden() || error.is_conflict() || error.code() == Some(404) => Ok(Ok(())),
            Err(error) if error.is_invalid() || error.code() == Some(400) => Ok(Err(error)),
            Err(error) => Err(error.into()),
        }
    }
}
