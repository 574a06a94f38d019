// SPDX-License-Identifier: MIT OR Apache-2.0

//! No modules of a crate import each other in a cycle: each can be read after those that it uses.
//!
//! - **An import counts for the module that defines the item.** `super::Item` is an import of a
//!   sibling if the parent only re-exports the item from there.
//! - **A module may import from its own submodules**, also to re-export, and a submodule may import
//!   what an ancestor itself defines. A module and its submodules are one unit, in several files:
//!   the parent's types come first, and its functions that use the submodules last.
//!
//! So a cycle is forbidden if it remains without the imports of a module from its own submodules.
//! A crate's root is excluded, because it names all modules and re-exports from them. So are unit
//! tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};
use walkdir::WalkDir;

/// A module's path within its crate; empty for the root.
type Module = Vec<String>;

/// The paths in a file, as written.
#[derive(Default)]
struct Named {
    all: Vec<Module>,
    /// The re-exports among them, with the exported name; `None` for a glob.
    exports: Vec<(Module, Option<String>)>,
    /// Whether the `use` that is being visited is a re-export.
    exporting: bool,
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.exporting = !matches!(item.vis, syn::Visibility::Inherited);
        self.tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|it| it.ident.to_string());
        self.all.push(names.collect());
        visit::visit_path(self, path);
    }
}

impl Named {
    fn tree(&mut self, tree: &UseTree, before: &mut Module) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|it| self.tree(it, before)),
            UseTree::Name(name) => self.leaf(before, &name.ident, &name.ident),
            UseTree::Rename(name) => self.leaf(before, &name.ident, &name.rename),
            UseTree::Glob(_) => {
                self.all.push(before.clone());
                if self.exporting {
                    self.exports.push((before.clone(), None));
                }
            }
        }
    }

    fn leaf(&mut self, before: &[String], name: &syn::Ident, renamed: &syn::Ident) {
        let path = [before, &[name.to_string()][..]].concat();
        if self.exporting {
            let exported = Some(renamed.to_string());
            self.exports.push((path.clone(), exported));
        }
        self.all.push(path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|it| it.is_ident("test"))
}

/// A crate's files by their modules.
fn modules(source: &Path) -> BTreeMap<Module, PathBuf> {
    let files = WalkDir::new(source).into_iter().map(|it| it.unwrap());
    let files = files.filter(|it| it.path().extension().is_some_and(|it| it == "rs"));
    let module = |path: &Path| -> Module {
        let relative = path.strip_prefix(source).unwrap().with_extension("");
        let names = relative.iter().map(|it| it.to_str().unwrap().to_owned());
        let mut names: Module = names.collect();
        let last = names.last().unwrap().as_str();
        if last == "mod" || names.len() == 1 && ["lib", "main"].contains(&last) {
            names.pop();
        }
        names
    };
    files
        .map(|it| (module(it.path()), it.into_path()))
        .collect()
}

/// A module's file, parsed.
struct Parsed {
    named: Named,
    /// The names of its own items.
    items: BTreeSet<String>,
}

impl Parsed {
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|it| panic!("{}: {it}", file.display()));
        let mut named = Named::default();
        named.visit_file(&parsed);
        let name = |item: &syn::Item| match item {
            syn::Item::Const(it) => Some(it.ident.to_string()),
            syn::Item::Enum(it) => Some(it.ident.to_string()),
            syn::Item::Fn(it) => Some(it.sig.ident.to_string()),
            syn::Item::Static(it) => Some(it.ident.to_string()),
            syn::Item::Struct(it) => Some(it.ident.to_string()),
            syn::Item::Trait(it) => Some(it.ident.to_string()),
            syn::Item::Type(it) => Some(it.ident.to_string()),
            _ => None,
        };
        let items = parsed.items.iter().filter_map(name).collect();
        Self { named, items }
    }
}

/// The modules of a crate.
struct Crate(BTreeMap<Module, Parsed>);

impl Crate {
    fn read(source: &Path) -> Self {
        let read = |(module, file): (Module, PathBuf)| (module, Parsed::read(&file));
        Self(modules(source).into_iter().map(read).collect())
    }

    /// The absolute path of a path in the module `from`, if it is in this crate.
    fn resolved(&self, path: &[String], from: &[String]) -> Option<Module> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => from.to_vec(),
            child if self.0.contains_key(&[from, &[child.to_owned()]].concat()) => from.to_vec(),
            _ => return None,
        };
        let mut rest = path;
        while let [first, tail @ ..] = rest {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => {
                    base.pop();
                }
                _ => break,
            }
            rest = tail;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The module that defines the item at an absolute path.
    fn definer(&self, mut path: Module) -> Option<&Module> {
        // Each step follows a re-export; a crate has no longer chain.
        for _ in 0..8 {
            let mut module = path.clone();
            while !self.0.contains_key(&module) {
                module.pop()?;
            }
            let (module, parsed) = self.0.get_key_value(&module)?;
            let next = path.get(module.len()).and_then(|name| {
                let target = self.exported(parsed, module, name)?;
                Some([&target[..], &path[module.len() + 1..]].concat())
            });
            match next {
                Some(next) => path = next,
                None => return Some(module),
            }
        }
        None
    }

    /// The path from which a module re-exports a name, if it does not define it.
    fn exported(&self, parsed: &Parsed, module: &[String], name: &String) -> Option<Module> {
        if parsed.items.contains(name) {
            return None;
        }
        parsed.named.exports.iter().find_map(|(path, exported)| {
            let target = self.resolved(path, module)?;
            match exported {
                Some(exported) => (exported == name).then_some(target),
                None => {
                    let of_glob = self.0.get(&target)?;
                    let has = of_glob.items.contains(name);
                    has.then(|| [&target[..], std::slice::from_ref(name)].concat())
                }
            }
        })
    }

    /// The imports of each module, without those from its own submodules.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let imports = |from: &Module, parsed: &Parsed| {
            let definer = |path: &Module| {
                let module = self.definer(self.resolved(path, from)?)?;
                (!module.is_empty() && !module.starts_with(from)).then_some(module)
            };
            parsed.named.all.iter().filter_map(definer).collect()
        };
        let all = self.0.iter().filter(|(it, _)| !it.is_empty());
        all.map(|(from, parsed)| (from, imports(from, parsed)))
            .collect()
    }
}

/// The transitive imports of a module.
fn reached<'a>(
    imports: &BTreeMap<&Module, BTreeSet<&'a Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        next.extend(imports[module].iter().filter(|it| reached.insert(**it)));
    }
    reached
}

/// The cycles among the modules, each as the names of its modules.
fn circles(source: &Path) -> BTreeSet<Vec<String>> {
    let modules = Crate::read(source);
    let imports = modules.imports();
    let all: BTreeMap<_, _> = imports
        .keys()
        .map(|it| (*it, reached(&imports, it)))
        .collect();
    let circle = |(from, reached): (&&Module, &BTreeSet<&Module>)| {
        let back = reached.iter().filter(|it| all[*it].contains(from));
        back.map(|it| it.join("::")).collect()
    };
    let found = all.iter().map(circle);
    found.filter(|it: &Vec<_>| !it.is_empty()).collect()
}

#[test]
fn no_modules_import_each_other_in_a_cycle() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = std::process::Command::new("git")
        .args(["ls-files", "*Cargo.toml"])
        .current_dir(&workspace)
        .output()
        .unwrap();
    let mut crates = 0;
    for manifest in String::from_utf8(listed.stdout).unwrap().lines() {
        let folder = workspace.join(manifest);
        let folder = folder.parent().unwrap();
        // The kernel modules' sources have no folder `src`.
        let source = match manifest {
            "kmod/Cargo.toml" => folder.to_owned(),
            _ => folder.join("src"),
        };
        if !source.is_dir() {
            continue;
        }
        crates += 1;
        let found = circles(&source);
        assert!(found.is_empty(), "{manifest}: {found:#?}");
    }
    assert!(crates > 15, "{crates}");
}

/// The cycles of a crate with these files.
fn circles_of(test: &str, files: &[(&str, &str)]) -> BTreeSet<Vec<String>> {
    let name = format!("weft-circles-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(folder.join("a")).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let circles = circles(&folder);
    fs::remove_dir_all(folder).unwrap();
    circles
}

fn cycle<const N: usize>(modules: [&str; N]) -> BTreeSet<Vec<String>> {
    BTreeSet::from([modules.map(str::to_owned).to_vec()])
}

#[test]
fn a_cycle_is_found() {
    let found = |deep| {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::X;"),
            ("a.rs", "mod deep; use crate::{b::{self, Y}, c};"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::X; }"),
            ("c.rs", "fn f() { super::a::deep::f(); }"),
            ("a/deep.rs", deep),
        ];
        circles_of("plain", &files)
    };
    assert_eq!(found("use crate::b;"), BTreeSet::new());
    assert_eq!(found("use super::super::c::f;"), cycle(["a::deep", "c"]));
}

#[test]
fn a_submodule_may_use_its_parents_own_items_and_the_parent_may_re_export_from_it() {
    let files = [
        ("lib.rs", "pub mod a;"),
        (
            "a.rs",
            "mod b; pub use b::{B, f}; pub struct A; fn g() { b::f(); }",
        ),
        ("a/b.rs", "use super::A; pub struct B; pub fn f() {}"),
    ];
    assert_eq!(circles_of("parent", &files), BTreeSet::new());
}

#[test]
fn a_cycle_through_a_parents_re_exports_is_found() {
    for exports in [
        "pub use b::{B as Renamed}; pub use c::C;",
        "pub use b::*; pub use c::*;",
    ] {
        let a = format!("mod b; mod c; {exports}");
        let files = [
            ("lib.rs", "pub mod a;"),
            ("a.rs", a.as_str()),
            ("a/b.rs", "use super::C; pub struct B;"),
            ("a/c.rs", "use crate::a::{B, Renamed}; pub struct C;"),
        ];
        assert_eq!(circles_of("exports", &files), cycle(["a::b", "a::c"]));
    }
}
