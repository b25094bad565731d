//! What happens to a world: each action is carried out, or handed to whom it is about.

use serde_json::{Value, json};
use sync_engine::engine::approval::{Decision, Record};
use sync_engine::object::marks::HELD;
use sync_engine::sandbox::{Admission, Request};

use super::super::action::{Action, Edit, Forever, Roster, TENANTS, Versions};
use super::super::checker::{AFTERMATH, Approved, RECORDS, state_store};
use super::super::mapping::{GUEST, MAIN, Mapping, Rule, Spread};
use super::super::matrix::is_fault;
use super::super::replicas;
use super::super::server::{
    Ahead, Side, accept, binding, binding_url, merge, new_schema, no_widgets, serve_widgets, widget_versions, widgets,
    workspace, workspace_url,
};
use super::{File, World, text};

impl World {
    pub(super) async fn act(&mut self, action: Action) {
        self.connect_new();
        self.follow_record();
        self.note(format_args!("{action:?}"));
        if matches!(action, Action::Silence(_) | Action::Restore(_, Ahead::Silent) | Action::Rebuild(_, Ahead::Silent))
        {
            self.core(|core| core.checker.is_kept_in_the_dark(core.age()));
        }
        self.tell_checker(action);
        if !action.is_everyday() {
            // Another process, or another connection, was told nothing.
            self.core(|core| core.checker.forgets_pauses());
        }
        let for_ever = match action {
            Action::Widgets => Some(Forever::NoWidgets),
            Action::Serve => Some(Forever::Unserved),
            Action::Back(Side::Second) => Some(Forever::Second),
            _ => None,
        };
        if for_ever.is_some() && self.plan.forever == for_ever {
            return;
        }
        match action {
            Action::Create(source) => self.create(source),
            Action::Change(source) => self.change(source),
            Action::Delete(source) => self.delete(source),
            Action::Recreate(source) => {
                self.delete(source);
                self.strip(source);
                self.create(source);
            }
            Action::Strip(source) => self.strip(source),
            Action::Keep(source) => self.keep(source),
            Action::Label(source) => self.label(source),
            Action::Forge(source) => self.forge(source),
            Action::Mark(source) => self.mark(source),
            Action::Fill(source) => self.fill(source),
            Action::Plant(source) => self.plant(source),
            Action::Secret(source, side, secrecy) => self.deal_with_secret(source, side, secrecy),
            Action::Claim(tenant) => self.source_server(&accept(tenant, true, self.plan.is_beside)),
            Action::Unclaim(tenant) => self.source_server(&accept(tenant, false, self.plan.is_beside)),
            Action::Bind(tenant) => self.source_server(&binding(tenant, self.plan.is_beside)),
            Action::Unbind(tenant) => self.source_server(&Request::delete(&binding_url(tenant))),
            Action::CreateWorkspace(tenant) => {
                self.source_server(&workspace(tenant));
                self.core(|core| core.settle(Side::Source));
                self.source_server(&binding(tenant, self.plan.is_beside));
            }
            Action::DeleteWorkspace(tenant) => self.source_server(&Request::delete(&workspace_url(tenant))),
            Action::Meddle(source, meddling) => self.meddle(source, meddling),
            Action::Usurp(side) => self.usurp(side),
            Action::DeleteNamespace(source) => {
                let namespace = self.namespace(source);
                self.target_server(&Request::delete(&format!("/api/v1/namespaces/{namespace}")));
            }
            Action::Release => self.release(),
            Action::NoWidgets => self.target_server(&no_widgets()),
            Action::Widgets => {
                self.core(|core| core.settle(Side::Target));
                self.target_server(&widgets());
                if self.plan.has_forms {
                    self.set_versions(self.versions);
                }
            }
            // Who takes a version away waits until no mapping writes it.
            Action::Version(versions) if self.may_serve(versions) => self.set_versions(versions),
            Action::Version(_) => {}
            Action::Unserve | Action::Serve => {
                self.target_server(&serve_widgets(action == Action::Serve));
                self.core(|core| core.settle(Side::Target));
                self.core(|core| core.server(Side::Target).end_watches("widgets"));
            }
            Action::Deny(verb) => self.core(|core| core.denied = Some(verb)),
            Action::Allow => self.core(|core| core.denied = None),
            Action::Mutate(changes) => self.core(|core| {
                core.mutates = changes;
                let patch = json!({"metadata": {"labels": {"policy": "set"}}, "data": {"edition": "policy"}});
                let change = Admission { group: String::new(), plural: "configmaps".into(), patch };
                core.server(Side::Target).state.set_admission(changes.then_some(change).into_iter().collect());
            }),
            Action::Compact(side) => self.core(|core| core.server(side).compact()),
            Action::Jump(seconds) => self.core(|core| {
                core.checker.has_jumped = true;
                core.jumped += seconds;
            }),
            Action::Edit(edit) => self.edit(edit),
            Action::Approve => self.decide(Decision::Approve),
            Action::Reject => self.decide(Decision::Reject),
            Action::Schema => {
                let requests = new_schema(self.plan.is_kcp, !self.has_edition(), self.plan.is_beside);
                requests.iter().for_each(|request| self.source_server(request));
            }
            Action::BackUp(side) => self.back_up(side),
            Action::Restore(side, ahead) => self.restore(side, ahead),
            Action::Rebuild(side, ahead) => self.rebuild(side, ahead),
            Action::Away(side) => self.core(|core| {
                core.server(side).up = false;
                core.server(side).cut_watches();
                let age = core.age();
                core.checker.away.entry(side).or_insert(age);
            }),
            Action::Back(side) => self.core(|core| {
                core.server(side).up = true;
                core.checker.away.remove(&side);
            }),
            Action::Cut(side) => self.core(|core| core.server(side).cut_watches()),
            Action::Silence(side) => self.core(|core| core.server(side).silence_watches()),
            Action::Weather(weather) => self.core(|core| core.set_weather(weather)),
            Action::Pause(number) => drop(self.core(|core| core.paused.insert(number))),
            Action::Resume(number) => self.core(|core| core.resume(number)),
            Action::Bar(number) => drop(self.core(|core| core.barred.insert(number))),
            Action::Unbar(number) => drop(self.core(|core| core.barred.remove(&number))),
            Action::DropLease(number) => {
                let lease = self.core(|core| replicas::lease_of(core, number));
                lease.iter().for_each(|url| self.target_server(&Request::delete(url)));
            }
            Action::Skew(number, seconds) => self.core(|core| {
                core.checker.has_jumped = true;
                *core.skewed.entry(number).or_default() += seconds;
            }),
            Action::Address(side) => self.core(|core| core.server(side).kubeconfig.address += 1),
            Action::List(roster) => {
                self.core(|core| {
                    core.checker.is_doubled |= roster == Roster::Doubled;
                    core.checker.is_relabelled |= roster == Roster::Relabelled;
                    core.roster = roster;
                });
                self.note_abandoned();
            }
            Action::Token(side) => self.core(|core| core.server(side).kubeconfig.token += 1),
            Action::Start(number) if !self.processes.contains_key(&number) => self.start(number),
            Action::Start(_) => {}
            Action::Crash(number) | Action::Stop(number) => {
                self.forgot = true;
                self.core(|core| core.resume(number));
                if let Some(process) = self.processes.remove(&number) {
                    match action {
                        Action::Stop(_) => process.stop().await,
                        _ => process.kill().await,
                    }
                    self.note_rivals();
                    self.check_tasks();
                }
            }
        }
        if self.plan.is_kcp {
            self.note_claims();
        }
    }

    fn may_serve(&self, versions: Versions) -> bool {
        self.serves(versions, &self.draft) || self.core(|core| core.checker.is_strict)
    }

    /// Whether these serve what a document writes. One that is retained, without a file or because it left its name, only deletes.
    pub(super) fn serves(&self, versions: Versions, document: &Mapping) -> bool {
        self.file == File::Missing || versions.serves(document.version)
    }

    pub(super) fn set_versions(&mut self, versions: Versions) {
        self.versions = versions;
        self.target_server(&widget_versions(versions));
        self.core(|core| core.settle(Side::Target));
        self.core(|core| core.server(Side::Target).end_watches("widgets"));
    }

    /// Tells the checker which clusters accept the claim for Secrets.
    fn note_claims(&self) {
        let clusters = TENANTS.map(|tenant| self.cluster(tenant));
        let claims = clusters.map(|cluster| (self.is_claimed(&cluster), cluster));
        self.core(|core| {
            let age = core.age();
            claims.into_iter().for_each(|(accepted, cluster)| core.checker.claimed(age, cluster, accepted));
        });
    }

    /// A fault that undoes or hides what servers hold counts once for each object.
    fn tell_checker(&self, action: Action) {
        let objects = match action {
            Action::Restore(..) | Action::Rebuild(..) | Action::NoWidgets => {
                self.sources().len() + self.target_objects().len() + self.secrets().len()
            }
            _ => 0,
        };
        let is_end = matches!(action, Action::Back(_) | Action::Allow | Action::Widgets | Action::Resume(_));
        self.core(|core| {
            let age = core.age();
            core.checker.has_changed(age);
            if is_fault(action) {
                core.checker.is_troubled(age + AFTERMATH);
                core.checker.faults += objects as u64;
            }
            if is_end {
                core.checker.feels_it(age + AFTERMATH);
            }
        });
    }

    fn edit(&mut self, edit: Edit) {
        let is_strict = self.core(|core| core.checker.is_strict);
        if matches!(edit, Edit::Version(version) if !self.versions.serves(version) && !is_strict) {
            return;
        }
        self.file = match (edit, self.file) {
            (Edit::Remove, File::Whole) => File::Missing,
            (Edit::Break, File::Whole) => File::Broken,
            _ => File::Whole,
        };
        self.note_abandoned();
        self.guests += u32::from(edit == Edit::Guest);
        self.is_fleet ^= edit == Edit::Fleet;
        self.handed.extend(if let Edit::Hand(field) = edit { Some(field) } else { None });
        self.draft.edit(edit);
        if !self.serves(self.versions, &self.draft) && !is_strict {
            // A file is there again that writes what was taken away.
            self.set_versions(Versions::Both);
        }
        self.core(|core| core.checker.write(self.draft.clone()));
        self.mapping = self.core(|core| core.checker.in_force(&self.draft));
        // What no process reads governs nothing.
        if !self.processes.is_empty() {
            self.publish();
        }
        let sound = self.file != File::Broken;
        let read: Vec<_> = self.processes.keys().map(|number| (self.documents(*number), self.names(*number))).collect();
        for (process, (documents, names)) in self.processes.values_mut().zip(read) {
            process.reload(&self.shared, documents, names, sound);
        }
    }

    /// Whoever takes the cluster out of its fleet, and the mapping away, gives its sources up: what carries the finalizer then is
    /// blocked once a mapping comes back, and `uninstall` releases it.
    fn note_abandoned(&mut self) {
        if self.file == File::Missing && self.core(|core| core.roster == Roster::Missing) {
            let carries = |source: &Value| source["metadata"]["finalizers"].to_string().contains("sync-engine.dev");
            let carried = self.sources().into_values().filter(carries);
            let carried: Vec<String> = carried.map(|source| text(&source, "uid")).collect();
            self.marked.extend(carried);
        }
    }

    /// A document that waited is in force once the engine has recorded it.
    pub(super) fn follow_record(&mut self) {
        self.mapping = self.core(|core| core.checker.in_force(&self.draft));
        let is_told = self.core(|core| core.checker.goes_by(Some(&self.mapping)));
        if self.file == File::Whole && !self.processes.is_empty() && !is_told {
            self.publish();
        }
    }

    /// Tells the checker what is in force from now on. Where the file is broken, what ran before goes on.
    pub(super) fn publish(&self) {
        let edition = match self.file {
            File::Whole => Some(self.mapping.clone()),
            File::Missing => None,
            File::Broken => return,
        };
        self.core(|core| core.checker.edit(core.age(), edition));
    }

    /// kcp drops the address of a shard with the last binding there. Where no process ran then, people alone know that nothing is
    /// left: they take it out of the state stores, as the engine says.
    pub(super) fn strike_addresses(&self) {
        let slices = "/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
        let Some(listed) = self.get(Side::Source, slices).map(|found| found.to_string()) else { return };
        let is_listed = |place: &String| {
            let address = place.trim_start_matches("kcp ").trim_end_matches("/clusters/*");
            listed.contains(&format!("\"{address}\""))
        };
        let maps = format!("/api/v1/namespaces/{RECORDS}/configmaps");
        for side in Side::ALL.into_iter().filter(|side| side.is_target()) {
            let found = self.get(side, &maps);
            for store in found.iter().filter_map(|list| list["items"].as_array()).flatten() {
                let named = store["data"]["clusters"].as_str().unwrap_or_default();
                let Ok(named) = serde_json::from_str::<Vec<String>>(named) else { continue };
                let kept: Vec<&String> = named.iter().filter(|place| is_listed(place)).collect();
                if kept.len() < named.len() {
                    let fields = json!({"data": {"clusters": json!(kept).to_string()}});
                    let url = format!("{maps}/{}", text(store, "name"));
                    self.core(|core| core.act(side, &merge(&url, &fields)));
                }
            }
        }
    }

    fn decide(&self, decision: Decision) {
        // As `sync-engine approve` does it, for whatever the engine says that it holds.
        let maps = format!("/api/v1/namespaces/{RECORDS}/configmaps");
        self.core(|core| {
            let records = core.get(Side::Target, &format!("{maps}?labelSelector={HELD}"));
            for found in records.as_ref().and_then(|list| list["items"].as_array()).into_iter().flatten() {
                let engine = found["metadata"]["labels"][HELD].as_str().unwrap_or_default();
                let Some(record) = Record::read(found) else { continue };
                let (at, shown) = (core.age(), &record.held.shown);
                let is_named = |text: &String| text.ends_with(" is deleted") || text.ends_with(" is given up");
                let names_all = shown.len() == record.held.size() && shown.iter().all(is_named);
                let losses = names_all.then(|| shown.clone());
                if decision == Decision::Approve {
                    core.checker.approved.push(Approved { at, losses });
                }
                let approval = record.decision(engine, RECORDS, decision);
                let name = approval["metadata"]["name"].as_str().unwrap_or_default();
                core.act(Side::Target, &Request::apply(&format!("{maps}/{name}?fieldManager=person"), &approval));
            }
        });
    }

    fn back_up(&mut self, side: Side) {
        if side.is_target() {
            // Not before the engine has its records there: without them it waits for a person.
            let has_records = |name: &&str| self.get(side, &state_store(name)).is_some();
            let has_guest = self.has_guest() && side == Side::Target;
            let names = [Some(self.mapping.name), has_guest.then_some(GUEST)];
            if !names.iter().flatten().all(has_records) {
                return;
            }
            let recorded = self.recorded_at(side);
            self.backed_up.insert(side, recorded);
        }
        self.core(|core| core.server(side).back_up());
    }

    fn restore(&mut self, side: Side, ahead: Ahead) {
        if side.is_target() && self.backed_up.get(&side) != Some(&self.recorded_at(side)) {
            return;
        }
        if !self.core(|core| core.server(side).restore(ahead)) {
            return;
        }
        match side {
            Side::Source => {
                self.source_restored = true;
                let (sources, beside) = (self.sources(), self.beside());
                self.core(|core| {
                    core.checker.sources_restored(core.age(), sources.values());
                    core.checker.objects_restored(core.age(), Side::Source, beside.iter());
                });
            }
            Side::Target | Side::Second => {
                self.target_restored = true;
                if self.plan.has_forms {
                    self.set_versions(self.versions);
                }
                let objects = self.objects_at(side);
                self.core(|core| core.checker.objects_restored(core.age(), side, objects.iter()));
                // Of several targets, the document counts that was recorded last.
                if self.mapping.spread == Spread::One {
                    self.restore_record();
                }
            }
        }
    }

    /// What the records on a target are of. Home that names another document than targets hold waits for a person.
    fn recorded_at(&self, side: Side) -> (&'static str, u32, Option<Value>) {
        let list = || self.get(side, &state_store(&format!("{}.targets", self.mapping.name)));
        let list = if side == Side::Target { list() } else { None };
        (self.mapping.name, self.guests, list.map(|list| list["data"]["document"].clone()))
    }

    /// Somebody's own document, later than any.
    fn usurp(&self, side: Side) {
        let url = state_store(self.mapping.name);
        let Some(store) = self.get(side, &url) else { return };
        let mut mapping = self.mapping.clone();
        mapping.rules.push(Rule { id: "foreign", suffix: "-foreign", ..MAIN });
        let theirs = Value::from(mapping.document(self.plan.is_kcp, false).to_string());
        let document = if store["data"]["document"] == theirs { Value::Null } else { theirs };
        let fields = json!({"data": {"document": document, "recorded": "2100-01-01T00:00:00Z"}});
        self.core(|core| core.act(side, &merge(&url, &fields)));
    }

    /// Where one target holds all, the document in its state store is in force.
    fn restore_record(&mut self) {
        let name = self.mapping.name;
        self.core(|core| {
            let record = core.get(Side::Target, &state_store(name));
            record.into_iter().for_each(|record| core.checker.record_restored(core.age(), name, &record));
        });
        self.follow_record();
    }

    fn rebuild(&mut self, side: Side, ahead: Ahead) {
        self.core(|core| {
            let now = core.now();
            core.server(side).rebuild(now, ahead);
        });
        if side == Side::Source {
            self.core(|core| {
                core.checker.objects_restored(core.age(), Side::Source, std::iter::empty());
                core.checker.forgets_sources();
            });
            self.furnish();
        }
    }
}
