// SPDX-License-Identifier: MIT OR Apache-2.0

//! No modules of a crate import each other in a cycle: each can be read after those that it uses.
//!
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
struct Named(Vec<Module>);

impl<'ast> Visit<'ast> for Named {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|it| it.ident.to_string());
        self.0.push(names.collect());
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
            UseTree::Name(name) => self
                .0
                .push([before, &[name.ident.to_string()][..]].concat()),
            UseTree::Rename(name) => self
                .0
                .push([before, &[name.ident.to_string()][..]].concat()),
            UseTree::Glob(_) => self.0.push(before.clone()),
        }
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

/// The absolute module of a path, if it is in this crate.
fn resolved(path: &[String], from: &[String]) -> Option<Module> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => from.to_vec(),
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

/// The imports of each module.
fn imports(modules: &BTreeMap<Module, PathBuf>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let imports = |from: &Module, file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text);
        let mut named = Named::default();
        named.visit_file(&parsed.unwrap_or_else(|it| panic!("{}: {it}", file.display())));
        let holder = |path: Module| {
            let mut module = resolved(&path, from)?;
            while !modules.contains_key(&module) {
                module.pop()?;
            }
            let (module, _) = modules.get_key_value(&module)?;
            (!module.is_empty() && module != from).then_some(module)
        };
        named.0.into_iter().filter_map(holder).collect()
    };
    let all = modules.iter().filter(|(it, _)| !it.is_empty());
    all.map(|(from, file)| (from, imports(from, file)))
        .collect()
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
fn circles(modules: &BTreeMap<Module, PathBuf>) -> BTreeSet<Vec<String>> {
    let imports = imports(modules);
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
        let found = circles(&modules(&source));
        assert!(found.is_empty(), "{manifest}: {found:#?}");
    }
    assert!(crates > 15, "{crates}");
}

#[test]
fn a_cycle_is_found() {
    let folder = std::env::temp_dir().join(format!("weft-circles-{}", std::process::id()));
    fs::create_dir_all(folder.join("a")).unwrap();
    for (name, text) in [
        ("lib.rs", "mod a; mod b; mod c; pub use a::X;"),
        ("a.rs", "mod deep; use crate::{b::{self, Y}, c};"),
        ("b.rs", "#[cfg(test)] mod tests { use crate::a::X; }"),
        ("c.rs", "fn f() { super::a::deep::f(); }"),
        ("a/deep.rs", "use crate::b;"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let before = circles(&modules(&folder));
    fs::write(folder.join("a/deep.rs"), "use super::super::c::f;").unwrap();
    let after = circles(&modules(&folder));
    fs::remove_dir_all(folder).unwrap();
    assert!(before.is_empty(), "{before:?}");
    let expected = ["a::deep", "c"].map(str::to_owned).to_vec();
    assert_eq!(after, BTreeSet::from([expected]));
}
