//! Create, update, patch and apply: one path to storage for all of them.

use http::Method;
use serde_json::{Value, json};

use super::apply::{self, Part};
use super::builtin;
use super::builtin_rules;
use super::coerce;
use super::collection::{ChangeKind, Key};
use super::last_applied;
use super::managers::{Author, Managed, Managers, Operation};
use super::object;
use super::patch;
use super::read;
use super::reply::Answer;
use super::request::{APPLY_PATCH, Request, ResourcePath};
use super::resource::{Resource, Version};
use super::schema::{self, Schema};
use super::state::{Admission, Scope, State, View};
use super::status::{Cause, Failure};
use super::validation;

/// Everything about a write but the object.
struct Write<'a> {
    view: &'a View,
    key: Key,
    author: Author,
    dry_run: bool,
    /// Whether the object comes of a patch, and did not come as it is.
    is_patch: bool,
    unknown_fields: UnknownFields,
}

/// What happens to fields that a schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownFields {
    Ignore,
    Warn,
    Refuse,
}

/// An object on its way to storage.
struct Draft {
    /// Without managers.
    object: Value,
    managers: Settled,
    warnings: Vec<String>,
}

/// What is known of the managers of a draft.
enum Settled {
    /// Nothing: those that the object had, and the write is recorded as an update.
    Unchanged,
    /// The client has sent its own (none, to reset them), and the write is recorded as an update.
    Sent(Managers),
    /// An apply has found them.
    Applied(Managers),
}

impl State {
    pub(super) fn create(&mut self, view: &View, path: &ResourcePath, request: &Request) -> Result<Answer, Failure> {
        let mut write = Write::new(view, path, request)?;
        let mut object = request.json()?;
        validation::check_identity(&mut object, &view.resource, &view.version)?;
        self.generate_name(&mut object);
        if path.name.is_none() {
            write.key.name = object::text(&object, "name").into();
        }
        validation::check_address(&object, &write.key)?;
        self.create_draft(&write, Draft::new(object))
    }

    /// Replaces an object by the body of the request.
    pub(super) fn update(&mut self, view: &View, path: &ResourcePath, request: &Request) -> Result<Answer, Failure> {
        let write = Write::new(view, path, request)?;
        let mut object = request.json()?;
        validation::check_identity(&mut object, &view.resource, &view.version)?;
        validation::check_address(&object, &write.key)?;
        let current = self.current(&write, path)?;
        validation::check_uid_precondition(&object, &current.object, &view.resource)?;
        if view.resource.custom && object::text(&object, "resourceVersion").is_empty() {
            return Err(validation::version_missing(&view.resource, &write.key.name));
        }
        self.replace(&write, current, Draft::new(object))
    }

    /// Changes an object by a patch of any kind.
    pub(super) fn patch(&mut self, view: &View, path: &ResourcePath, request: &Request) -> Result<Answer, Failure> {
        let write = Write::new(view, path, request)?;
        let patch = request.json()?;
        if request.content_type == APPLY_PATCH {
            return self.apply(&write, path, request, &patch);
        }
        let carry_out = patch::of_type(&request.content_type, view.resource.custom)?;
        let current = self.current(&write, path)?;
        let mut object = current.object.clone();
        current.managers.put_into(&mut object);
        carry_out(&mut object, &patch)?;
        validation::check_identity(&mut object, &view.resource, &view.version)?;
        validation::check_address(&object, &write.key)?;
        validation::check_uid_unchanged(&object, &current.object, &view.resource)?;
        self.replace(&write, current, Draft::new(object))
    }

    fn apply(
        &mut self,
        write: &Write,
        path: &ResourcePath,
        request: &Request,
        config: &Value,
    ) -> Result<Answer, Failure> {
        validation::check_applied(config, write.resource(), &write.view.version, &write.key)?;
        write.check_types(config)?;
        let forced = request.query.is_true("force");
        let options = apply::Options {
            part: write.part(),
            forced,
            as_update: write.view.is_virtual,
            now: self.now,
            schema: write.shape(),
        };
        let Ok(current) = self.current(write, path) else {
            return self.apply_new(write, config, options);
        };
        validation::check_uid_unchanged(config, &current.object, write.resource())?;
        validation::check_version(config, &current.object, write.resource())?;
        if let Some(version) = current.managers.in_another_version(|version| write.resource().declares(version)) {
            return Err(Failure::version_is_gone("to", version));
        }
        let managers = current.managers.before_first_apply(&current.object, &write.author, write.shape(), self.now);
        let by = |options| apply::apply(&current.object, managers.clone(), config, &write.author, options);
        let applied = match by(options) {
            Err(conflicts) if last_applied::allows(&current.object, &conflicts, request.field_manager()) => {
                by(apply::Options { forced: true, ..options })
            }
            outcome => outcome,
        }?;
        let mut draft = Draft::applied(applied, write);
        last_applied::follow(&mut draft.object, config, request.field_manager());
        self.replace(write, current, draft)
    }

    fn apply_new(&mut self, write: &Write, config: &Value, options: apply::Options) -> Result<Answer, Failure> {
        if write.part() == Part::Status {
            return Err(Failure::not_found(write.resource(), &write.key.name));
        }
        let uid = object::text(config, "uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Failure::conflict(write.resource(), &write.key.name, &why));
        }
        let identity = json!({
            "apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {"name": *write.key.name},
        });
        let applied = apply::apply(&identity, Managers::default(), config, &write.author, options)?;
        self.create_draft(write, Draft::applied(applied, write))
    }

    /// Creates what does not exist yet, whoever gave it a name.
    fn create_draft(&mut self, write: &Write, mut draft: Draft) -> Result<Answer, Failure> {
        self.check_namespace(write.resource(), &write.key)?;
        if let Some(present) = self.stored(write.resource(), &write.key) {
            return Err(Failure::already_exists(write.resource(), &write.key.name, present.deleting));
        }
        draft.drop_what_servers_set(write);
        draft.admit(write)?;
        validation::check_annotations(&draft.object, true, write.resource())?;
        builtin::default(write.resource(), &mut draft.object);
        let nothing = builtin::nothing(write.resource());
        let managers = self.managers_of(write, &mut draft, &nothing, Managers::default());
        self.mutate(write, &mut draft.object);
        builtin::complete(write.resource(), &mut draft.object);
        builtin::say_nothing(write.resource(), &mut draft.object);
        self.stamp(write.resource(), &write.key, &mut draft.object);
        // kcp adds its own on the way to storage and back, which a rehearsal does not take.
        if !write.dry_run {
            self.mark(&write.key, write.resource(), &mut draft.object);
        }
        Ok(self.store(write, draft, managers, ChangeKind::Added))
    }

    /// Puts a new state of an existing object into force; does nothing where nothing is new.
    fn replace(&mut self, write: &Write, current: Managed, mut draft: Draft) -> Result<Answer, Failure> {
        let old = &current.object;
        validation::check_version(&draft.object, old, write.resource())?;
        draft.inherit(write, old);
        draft.admit(write)?;
        validation::check_annotations(&draft.object, false, write.resource())?;
        builtin::default(write.resource(), &mut draft.object);
        builtin_rules::check_immutable(&draft.object, old, write.resource())?;
        validation::check_finalizers(&draft.object, old, write.resource())?;
        let managers = self.managers_of(write, &mut draft, old, current.managers.clone());
        self.mutate(write, &mut draft.object);
        write.count_generation(old, &mut draft.object);
        builtin::say_nothing(write.resource(), &mut draft.object);
        self.mark(&write.key, write.resource(), &mut draft.object);
        if managers == current.managers && draft.object == *old {
            managers.put_into(&mut draft.object);
            return Ok(draft.answer(write, 200));
        }
        let goes = object::is_deleting(&draft.object) && !object::is_held(&draft.object);
        let kind = if goes { ChangeKind::Deleted } else { ChangeKind::Modified };
        Ok(self.store(write, draft, managers, kind))
    }

    /// Changes an object on its way to storage as admission has it, which is not asked about a status.
    fn mutate(&self, write: &Write, object: &mut Value) {
        let is_meant = |change: &&Admission| write.resource().is(&change.group, &change.plural);
        for change in self.admission.iter().filter(is_meant).filter(|_| write.part() != Part::Status) {
            json_patch::merge(object, &change.patch);
        }
    }

    fn managers_of(&self, write: &Write, draft: &mut Draft, old: &Value, mut before: Managers) -> Managers {
        match std::mem::replace(&mut draft.managers, Settled::Unchanged) {
            Settled::Applied(managers) => return managers,
            Settled::Sent(managers) => before = managers,
            Settled::Unchanged => (),
        }
        let is_untracked = before.is_empty() && !object::text(old, "uid").is_empty();
        if is_untracked {
            // Nobody has said anything of this object: an update alone does not begin to keep a record.
            return before;
        }
        if before.in_another_version(|version| write.resource().declares(version)).is_some() {
            // What cannot be compared is forgotten altogether.
            return Managers::default();
        }
        before.record_update(&write.author, old, &draft.object, write.shape(), self.now);
        before
    }

    fn store(&mut self, write: &Write, mut draft: Draft, managers: Managers, kind: ChangeKind) -> Answer {
        managers.put_into(&mut draft.object);
        // A virtual workspace answers a patch as a patch, also where it has created something for it.
        let is_created = kind == ChangeKind::Added && !(write.is_patch && write.view.is_virtual);
        let code = if is_created { 201 } else { 200 };
        if write.dry_run {
            return draft.answer(write, code);
        }
        let resource = write.resource();
        let stored = read::in_version(resource, &resource.storage_version, draft.object.clone());
        let stored = self.commit(resource, &write.key, kind, stored);
        if kind == ChangeKind::Deleted {
            // The last version is told to watches alone.
            return draft.answer(write, code);
        }
        let mut answer = Answer::json(code, read::body(write.resource(), &write.view.version, &stored));
        answer.warnings = draft.warnings;
        answer
    }

    /// The object as it stands, in the version of the request.
    fn current(&self, write: &Write, path: &ResourcePath) -> Result<Managed, Failure> {
        let (_, stored) = self.existing(write.view, path)?;
        let mut object = read::in_version(write.resource(), &write.view.version, stored.object());
        let managers = Managers::take_from(&mut object);
        Ok(Managed { object, managers })
    }

    /// A name for an object that asks for one by `generateName`.
    fn generate_name(&mut self, object: &mut Value) {
        let prefix = object::text(object, "generateName");
        if object::text(object, "name").is_empty() && !prefix.is_empty() {
            let name = format!("{prefix}{}", &self.next_uid()[..5]);
            object::set(object, "name", Some(name.into()));
        }
    }

    /// Gives a new object its uid and the other marks of a beginning.
    pub(super) fn stamp(&mut self, resource: &Resource, key: &Key, object: &mut Value) {
        let namespace = (!key.namespace.is_empty()).then(|| Value::from(&*key.namespace));
        object::set(object, "namespace", namespace);
        object::set(object, "uid", Some(self.next_uid().into()));
        object::set(object, "creationTimestamp", Some(self.now.to_string().into()));
        object::set(object, "generation", resource.generation.then(|| 1.into()));
    }

    fn check_namespace(&self, resource: &Resource, key: &Key) -> Result<(), Failure> {
        if !resource.namespaced {
            return Ok(());
        }
        let Some(namespaces) = self.builtin("", "namespaces") else { return Ok(()) };
        match self.stored(&namespaces, &Key::new(&key.cluster, "", &key.namespace)) {
            None => Err(Failure::not_found(&namespaces, &key.namespace)),
            Some(namespace) if namespace.deleting => {
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                );
                let message = format!("namespace {} is being terminated", key.namespace);
                let cause = Cause::new("NamespaceTerminating", "metadata.namespace", message);
                Err(Failure::forbidden(resource, &key.name, &why).detail("causes", json!([cause])))
            }
            Some(_) => Ok(()),
        }
    }
}

impl<'a> Write<'a> {
    fn new(view: &'a View, path: &ResourcePath, request: &Request) -> Result<Write<'a>, Failure> {
        let Scope::Cluster(cluster) = &view.scope else { return Err(Failure::PageNotFound) };
        let applies = request.content_type == APPLY_PATCH && !view.is_virtual;
        let stated = request.query.get("fieldManager").is_some_and(|manager| !manager.is_empty());
        // What a virtual workspace sends on comes from kcp, unless the URL says from whom.
        let manager = if view.is_virtual && !stated { "kcp" } else { request.field_manager() };
        let author = Author {
            manager: manager.to_owned(),
            operation: if applies { Operation::Apply } else { Operation::Update },
            api_version: view.resource.api_version(&view.version),
            subresource: path.subresource.clone().unwrap_or_default(),
        };
        let unknown_fields = match request.query.get("fieldValidation") {
            Some("Ignore") => UnknownFields::Ignore,
            Some("Strict") => UnknownFields::Refuse,
            _ => UnknownFields::Warn,
        };
        let namespace = path.namespace.as_deref().unwrap_or_default();
        let key = Key::new(cluster, namespace, path.name.as_deref().unwrap_or_default());
        let dry_run = request.query.get("dryRun") == Some("All");
        Ok(Write { view, key, author, dry_run, is_patch: request.method == Method::PATCH, unknown_fields })
    }

    fn resource(&self) -> &'a Resource {
        &self.view.resource
    }

    fn version(&self) -> Option<&'a Version> {
        self.view.resource.version(&self.view.version)
    }

    fn schema(&self) -> Option<&'a Schema> {
        self.version().filter(|version| version.is_typed).map(|version| &version.schema)
    }

    /// The answer to a body, or to the outcome of a patch, that is no object of the kind.
    fn unreadable(&self, object: &Value, why: &str) -> Failure {
        let (kind, version) = (&self.resource().kind, &self.view.version);
        match self.is_patch {
            true => Failure::patch_makes_nonsense(object, why),
            false => {
                Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
            }
        }
    }

    /// How objects of the kind merge.
    fn shape(&self) -> &'a Schema {
        self.version().map_or(Schema::untyped(), |version| &version.schema)
    }

    /// The part of the object that is written.
    fn part(&self) -> Part {
        match (&*self.author.subresource, self.version().is_some_and(|version| version.status)) {
            ("status", _) => Part::Status,
            (_, true) => Part::AllButStatus,
            (_, false) => Part::Whole,
        }
    }

    /// Raises the generation where something else than metadata and status differs.
    fn count_generation(&self, old: &Value, new: &mut Value) {
        if !self.resource().generation || self.part() == Part::Status {
            return;
        }
        let counts = |field: &str| match field {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => self.part() == Part::Whole,
            _ => true,
        };
        let fields = |object: &Value| object.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        let mut all = fields(old).into_iter().chain(fields(new)).flatten().filter(|field| counts(field));
        if all.any(|field| old.get(&field) != new.get(&field)) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
            new["metadata"]["generation"] = generation.into();
        }
    }

    /// Server-side apply takes only what has the types of the schema, and lists whose items can be told apart.
    fn check_types(&self, config: &Value) -> Result<(), Failure> {
        let Some(schema) = self.schema() else { return Ok(()) };
        let undeclared = schema.prune(&mut config.clone());
        let undeclared = undeclared.first().map(|field| format!(".{field}: field not declared in schema"));
        let mistyped = schema.first_mismatch(config, "").map(|(path, value, wanted)| {
            let wanted = match wanted {
                "int32" | "float64" => "numeric (int or float)",
                "bool" => "boolean",
                "[]string" => "list",
                "map[string]string" => "map",
                text => text,
            };
            format!(".{path}: expected {wanted}, got {}", schema::type_name(&value))
        });
        let Some(why) = undeclared.or(mistyped).or_else(|| self.shape().wrong_list(config, "")) else { return Ok(()) };
        let (namespace, name) = (object::text(config, "namespace"), object::text(config, "name"));
        let message = format!(
            "failed to create typed patch object ({namespace}/{name}; {}/{}, Kind={}): {why}",
            self.resource().group,
            self.view.version,
            self.resource().kind,
        );
        Err(Failure::status(500, "", message))
    }
}

impl Draft {
    fn new(mut object: Value) -> Draft {
        let sends_managers = object["metadata"].get("managedFields").is_some();
        let sent = Managers::take_from(&mut object);
        let managers = if sends_managers { Settled::Sent(sent) } else { Settled::Unchanged };
        Draft { object, managers, warnings: Vec::new() }
    }

    /// What an apply has made; a virtual workspace sends it on as an update.
    fn applied(applied: Managed, write: &Write) -> Draft {
        let managers = match write.view.is_virtual {
            true => Settled::Unchanged,
            false => Settled::Applied(applied.managers),
        };
        Draft { object: applied.object, managers, warnings: Vec::new() }
    }

    /// Drops what only the server may set on a new object.
    fn drop_what_servers_set(&mut self, write: &Write) {
        for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            object::set(&mut self.object, field, None);
        }
        if write.part() == Part::AllButStatus {
            object::set_part(&mut self.object, "status", None);
        }
    }

    /// Takes from the present state what this write may not change.
    fn inherit(&mut self, write: &Write, old: &Value) {
        match write.part() {
            Part::Whole => (),
            Part::AllButStatus => object::set_part(&mut self.object, "status", old.get("status").cloned()),
            Part::Status => {
                let status = self.object.get("status").cloned();
                self.object = old.clone();
                object::set_part(&mut self.object, "status", status);
            }
        }
        for field in [
            "namespace",
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
        ] {
            object::set(&mut self.object, field, old["metadata"].get(field).cloned());
        }
        if write.resource().is("", "namespaces") {
            object::set_part(&mut self.object, "spec", old.get("spec").cloned());
        }
    }

    /// Prunes, defaults and validates.
    fn admit(&mut self, write: &Write) -> Result<(), Failure> {
        validation::check_depth(&self.object)?;
        object::normalise_numbers(&mut self.object);
        let unknown = self.coerce(write).map_err(|why| write.unreadable(&self.object, &why))?;
        self.report_unknown(write, &unknown)?;
        self.warnings.extend(validation::finalizer_warnings(&self.object));
        let mut causes = validation::check_metadata(&self.object, write.resource());
        causes.extend(builtin_rules::check(&self.object, write.resource()));
        if let Some(schema) = write.schema() {
            schema.fill_defaults(&mut self.object);
            causes.extend(match write.part() {
                Part::Status => schema.validate_status(&self.object),
                Part::AllButStatus | Part::Whole => schema.validate(&self.object),
            });
        }
        if causes.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid(write.resource(), &write.key.name, &causes))
    }

    /// Reads what was sent as an object of its kind; gives the fields that nobody knows, which are dropped.
    fn coerce(&mut self, write: &Write) -> Result<Vec<String>, String> {
        let mut unknown = coerce::metadata(&mut self.object, write.resource())?;
        let Some(schema) = write.schema() else { return Ok(unknown) };
        if !write.resource().custom {
            coerce::builtin(&mut self.object, write.resource(), schema)?;
        }
        unknown.extend(schema.prune(&mut self.object));
        Ok(unknown)
    }

    fn report_unknown(&mut self, write: &Write, unknown: &[String]) -> Result<(), Failure> {
        let texts = unknown.iter().map(|field| format!("unknown field \"{field}\""));
        match write.unknown_fields {
            UnknownFields::Ignore => (),
            UnknownFields::Warn => self.warnings.extend(texts),
            UnknownFields::Refuse if unknown.is_empty() => (),
            UnknownFields::Refuse => {
                let errors = texts.collect::<Vec<_>>().join(", ");
                return Err(write.unreadable(&self.object, &format!("strict decoding error: {errors}")));
            }
        }
        Ok(())
    }

    fn answer(self, write: &Write, code: u16) -> Answer {
        let object = read::in_version(write.resource(), &write.view.version, self.object);
        Answer { warnings: self.warnings, ..Answer::value(code, &object) }
    }
}
