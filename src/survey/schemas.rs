//! The schemas of what mappings read and write, as live clusters have them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::openapi::excerpt;
use super::{Surveyor, Unseen, find, kcp, object};
use crate::engine::target::served;
use crate::mapping::schema::schema_names;
use crate::mapping::{ApiExportRef, Kind, Mapping, Resource, Side, SourceClusters};
use crate::multicluster::{ApiPath, Endpoint, RequestError};

/// Documents by the path to write them to.
pub type Documents = BTreeMap<String, Value>;

impl Surveyor {
    /// The schemas of what a mapping serves and renders; what is not to be had is said in `missing`.
    ///
    /// # Errors
    /// Where a cluster cannot be asked.
    pub async fn schemas(
        &self,
        mapping: &Mapping,
        documents: &mut Documents,
        missing: &mut Vec<String>,
    ) -> Result<(), Unseen> {
        match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => self.consumer_schemas(export, documents).await?,
            SourceClusters::Provider(provider) => {
                let resource = &mapping.source.resource;
                let mut found = None;
                for (_, endpoint, _) in self.clusters(provider).await? {
                    found = definition(&endpoint, resource).await?;
                    if found.is_some() {
                        break;
                    }
                }
                match found {
                    Some(found) => drop(documents.insert(file(provider, &name_of(&found)), found)),
                    None => missing.push(format!("{resource} at the provider {provider}")),
                }
            }
        }
        self.target_schemas(mapping, documents, missing).await
    }

    /// The APIResourceSchemas of an export.
    async fn consumer_schemas(&self, export: &ApiExportRef, documents: &mut Documents) -> Result<(), Unseen> {
        let found = self.export(export).await?;
        let workspace = self.workspace(export)?;
        for name in schema_names(&found) {
            let schema = object(&workspace, &kcp::resource_schemas(), "", &name).await;
            let schema =
                schema.map_err(|why| unread("`apiresourceschemas` of `apis.kcp.io` in that workspace", why))?;
            documents.insert(file(&export.connection, &name), scrubbed(schema));
        }
        Ok(())
    }

    async fn target_schemas(
        &self,
        mapping: &Mapping,
        documents: &mut Documents,
        missing: &mut Vec<String>,
    ) -> Result<(), Unseen> {
        let target = self.target_name(mapping);
        let endpoint = self.connection(target)?.endpoint();
        let mut builtin: BTreeMap<(String, String), Vec<(Kind, Resource)>> = BTreeMap::new();
        let kinds = mapping.objects.iter().map(|rule| &rule.kind).filter(|kind| kind.side == Side::Target);
        for kind in kinds {
            let resource = match served(&endpoint, kind).await {
                Ok(served) => served.resource,
                Err(why) => {
                    missing.push(format!("target `{}`: {why}", target));
                    continue;
                }
            };
            match definition(&endpoint, &resource).await? {
                Some(found) => drop(documents.insert(file(target, &name_of(&found)), found)),
                None => {
                    let of = (kind.group.clone(), kind.version.clone());
                    builtin.entry(of).or_default().push((kind.clone(), resource));
                }
            }
        }
        for ((group, version), kinds) in builtin {
            let found = published(&endpoint, &kinds).await;
            let found = found.map_err(|why| unread("the path `/openapi/v3/*` of the target", why))?;
            let group = if group.is_empty() { "core" } else { &group };
            match found {
                Some(found) => drop(documents.insert(file(target, &format!("openapi.{version}.{group}")), found)),
                None => {
                    let kinds: Vec<_> = kinds.iter().map(|(kind, _)| kind.to_string()).collect();
                    missing.push(format!("target `{}` publishes no schema of {}", target, kinds.join(", ")));
                }
            }
        }
        Ok(())
    }
}

/// Of what no engine reads.
fn unread(what: &'static str, why: RequestError) -> Unseen {
    if why.is_forbidden() { Unseen::NotOfEngine { what, why } } else { why.into() }
}

fn file(connection: &str, name: &str) -> String {
    format!("{connection}/{name}.yaml")
}

/// The CustomResourceDefinition of a resource; `None` where there is none.
async fn definition(endpoint: &Endpoint, resource: &Resource) -> Result<Option<Value>, RequestError> {
    if resource.group.is_empty() {
        return Ok(None);
    }
    let definitions = Resource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let name = format!("{}.{}", resource.plural, resource.group);
    Ok(find(endpoint, &definitions, "", &name).await?.map(scrubbed))
}

/// What a cluster publishes of kinds of one group and version.
async fn published(endpoint: &Endpoint, kinds: &[(Kind, Resource)]) -> Result<Option<Value>, RequestError> {
    let Some((_, resource)) = kinds.first() else { return Ok(None) };
    match endpoint.get(&ApiPath::open_api(resource)?).await {
        Ok(reply) => Ok(serde_json::from_slice(&reply.body).ok().and_then(|document| excerpt(&document, kinds))),
        Err(error) if error.retryable() || error.is_forbidden() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The document as somebody wrote it: what the server adds is left out.
fn scrubbed(mut object: Value) -> Value {
    let name = object["metadata"]["name"].clone();
    object["metadata"] = json!({"name": name});
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
