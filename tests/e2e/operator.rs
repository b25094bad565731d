//! The part of the operator that the engine sees: it writes downstream status.

use serde_json::{Value, json};

use crate::rest::Patch;
use crate::target::Target;
use crate::tenant::Tenant;

impl Target {
    /// Merges `status` into the status of a downstream object; a null removes.
    pub async fn report(&self, object: &Value, status: Value) -> Value {
        let path = format!("{}/status?fieldManager=operator", self.path(object));
        self.rest.patch(Patch::Merge, &path, &json!({"status": status})).await
    }

    /// Waits for the object of `name`, and reports `status` on it.
    pub async fn operate(&self, tenant: &Tenant, name: &str, status: Value) -> Value {
        let copy = self.copy(tenant, name).await;
        self.report(&copy, status).await
    }
}
