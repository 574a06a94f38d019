// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules of `kmod/kapi` that no compiler checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{
    FnArg, ImplItemFn, ItemImpl, ParenthesizedGenericArguments, ReceiverKind, Safety,
    TypeReference, Visibility,
};

/// The files of kapi, parsed.
fn files() -> Vec<syn::File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod/kapi");
    let paths = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let sources = paths.filter(|it| it.extension().is_some_and(|it| it == "rs"));
    sources
        .map(|it| parse(&fs::read_to_string(it).unwrap()))
        .collect()
}

fn parse(text: &str) -> syn::File {
    syn::parse_file(text).unwrap()
}

/// Public methods that lend exclusive access to something.
///
/// They return a `&mut` or a guard, or pass a `&mut` to a closure.
#[derive(Default)]
struct Lenders {
    /// Types that dereference to a `&mut`.
    guards: BTreeSet<String>,
    /// All lenders, as `Type::method`.
    all: Vec<String>,
    /// Those that can be called twice at the same time.
    shared: Vec<String>,
    /// The type of the `impl` that is being visited.
    owner: String,
}

impl Lenders {
    fn of(files: &[syn::File]) -> Self {
        let mut lenders = Self::default();
        for item in files.iter().flat_map(|it| &it.items) {
            if let syn::Item::Impl(item) = item
                && let Some((path, _)) = &item.trait_
                && path
                    .segments
                    .last()
                    .is_some_and(|it| it.ident == "DerefMut")
            {
                lenders.guards.insert(name_of(&item.self_ty));
            }
        }
        files.iter().for_each(|it| lenders.visit_file(it));
        lenders
    }
}

/// The last word of a type's path.
fn name_of(r#type: &syn::Type) -> String {
    match r#type {
        syn::Type::Path(path) => {
            let last = path.path.segments.last();
            last.map(|it| it.ident.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// Whether a part of a signature lends something.
struct Lends<'a> {
    guards: &'a BTreeSet<String>,
    found: bool,
}

impl<'ast> Visit<'ast> for Lends<'_> {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        self.found |= reference.mutability.is_some();
        visit::visit_type_reference(self, reference);
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        let last = path.path.segments.last();
        self.found |= last.is_some_and(|it| self.guards.contains(&it.ident.to_string()));
        visit::visit_type_path(self, path);
    }
}

/// The arguments of closures in a signature.
struct Closures<'a>(Lends<'a>);

impl<'ast> Visit<'ast> for Closures<'_> {
    fn visit_parenthesized_generic_arguments(
        &mut self,
        arguments: &'ast ParenthesizedGenericArguments,
    ) {
        for argument in &arguments.inputs {
            self.0.visit_type(&argument.ty);
        }
    }
}

impl<'ast> Visit<'ast> for Lenders {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.owner = name_of(&item.self_ty);
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        let signature = &function.sig;
        let Some(FnArg::Receiver(receiver)) = signature.inputs.first() else {
            return;
        };
        let is_unsafe = matches!(signature.safety, Safety::Unsafe(_));
        if is_unsafe || !matches!(function.vis, Visibility::Public(_)) {
            return;
        }
        let lends = || Lends {
            guards: &self.guards,
            found: false,
        };
        let mut returned = lends();
        returned.visit_return_type(&signature.output);
        let mut closures = Closures(lends());
        closures.visit_signature(signature);
        if !returned.found && !closures.0.found {
            return;
        }
        let name = format!("{}::{}", self.owner, signature.ident);
        if matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) {
            self.shared.push(name.clone());
        }
        self.all.push(name);
    }
}

/// Otherwise a closure, or the holder of a guard, could call the method again: it would wait for
/// its own lock for ever or, on a kernel without SMP, where there is no lock, borrow twice.
///
/// It judges by the words of a signature. It does not see a guard that is behind an `impl Trait` or
/// a type alias, and not a `&mut` that a method of a trait lends.
#[test]
fn methods_that_lend_exclusive_access_borrow_exclusively() {
    let lenders = Lenders::of(&files());
    let shared = lenders.shared;
    assert!(shared.is_empty(), "they take &self: {shared:?}");
    for expected in [
        "Sch::shared",
        "Sch::arriving",
        "Rtnl::shared",
        "Socket::shared",
    ] {
        assert!(lenders.all.iter().any(|it| it == expected), "{expected}");
    }
}

#[test]
fn a_method_that_lends_from_a_shared_borrow_is_found() {
    let text = "
        impl A {
            pub fn closure<R>(&self, f: impl FnOnce(&mut u8) -> R) -> R { f() }
            pub fn bounded<F>(&self, f: F) where F: FnMut(u8, Option<&mut u8>) { f() }
            pub fn returned(&self) -> Option<&mut u8> { None }
            pub fn guarded(&self) -> Guard<'_> { Guard }
            pub fn exclusive(&mut self, f: impl FnOnce(&mut u8)) { f() }
            pub fn consumed(self, f: impl FnOnce(&mut u8)) { f() }
            pub fn argument(&self, it: &mut u8) {}
            pub fn reader(&self, f: impl FnOnce(&u8)) { f() }
            pub unsafe fn promised(&self, f: impl FnOnce(&mut u8)) { f() }
            fn private(&self, f: impl FnOnce(&mut u8)) { f() }
        }
        impl DerefMut for Guard<'_> {}";
    let shared = Lenders::of(&[parse(text)]).shared;
    let expected = ["closure", "bounded", "returned", "guarded"];
    assert_eq!(shared, expected.map(|it| format!("A::{it}")));
}
