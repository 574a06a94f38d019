// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules of `kmod/kapi` that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    FnArg, ImplItemFn, ItemImpl, ParenthesizedGenericArguments, ReceiverKind, Safety,
    TypeReference, Visibility,
};

fn kmod() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod")
}

/// The Rust files of a folder of `kmod`, parsed.
fn files(folder: &str) -> Vec<syn::File> {
    let paths = fs::read_dir(kmod().join(folder))
        .unwrap()
        .map(|it| it.unwrap().path());
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
    let lenders = Lenders::of(&files("kapi"));
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

/// A field, by the names on the way to it from its structure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    /// The structure, if the visited function states it.
    structure: Option<String>,
    /// As `q.qlen`.
    field: String,
}

/// The fields that code names.
#[derive(Default)]
struct Accesses {
    /// Names from `bindings`, of which the kernel's structures are some.
    bindings: BTreeSet<String>,
    /// The structures that the variables of the visited function are or point to.
    variables: BTreeMap<String, String>,
    /// All accesses.
    all: BTreeSet<Access>,
    /// Structures that are built or taken apart.
    whole: BTreeSet<String>,
}

/// What a pointer or reference leads to; otherwise the type itself.
fn pointee(r#type: &syn::Type) -> String {
    match r#type {
        syn::Type::Ptr(pointer) => name_of(&pointer.elem),
        syn::Type::Reference(reference) => name_of(&reference.elem),
        value => name_of(value),
    }
}

fn member(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(name) => name.to_string(),
        syn::Member::Unnamed(index) => index.index.to_string(),
    }
}

/// The names of a field from the expression that has it, and that expression.
fn chain(field: &syn::ExprField) -> (String, &syn::Expr) {
    let name = member(&field.member);
    match &*field.base {
        syn::Expr::Field(inner) => {
            let (before, root) = chain(inner);
            (format!("{before}.{name}"), root)
        }
        root => (name, root),
    }
}

impl Accesses {
    fn of(files: &[syn::File]) -> Self {
        let mut accesses = Self::default();
        for file in files {
            accesses.visit_file(file);
        }
        accesses
    }

    /// The structure that an expression is or points to, if it is a variable or a cast.
    fn structure(&self, expression: &syn::Expr) -> Option<String> {
        match expression {
            syn::Expr::Paren(inner) => self.structure(&inner.expr),
            syn::Expr::Unary(inner) => self.structure(&inner.expr),
            syn::Expr::Unsafe(inner) => match inner.block.stmts.as_slice() {
                [syn::Stmt::Expr(last, None)] => self.structure(last),
                _ => None,
            },
            syn::Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                self.variables.get(&name).cloned()
            }
            syn::Expr::MethodCall(call) if call.method == "cast" => {
                match call.turbofish.as_ref()?.args.first()? {
                    syn::GenericArgument::Type(it) => Some(name_of(it)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn imports(&mut self, tree: &syn::UseTree, from_bindings: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                self.imports(&path.tree, from_bindings || path.ident == "bindings");
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(tree, from_bindings);
                }
            }
            syn::UseTree::Name(name) if from_bindings => {
                self.bindings.insert(name.ident.to_string());
            }
            _ => {}
        }
    }

    /// Fields that a literal or a pattern names.
    fn whole<'a>(&mut self, path: &syn::Path, fields: impl Iterator<Item = &'a syn::Member>) {
        let Some(name) = path.segments.last().map(|it| it.ident.to_string()) else {
            return;
        };
        self.all.extend(fields.map(|it| Access {
            structure: Some(name.clone()),
            field: member(it),
        }));
        self.whole.insert(name);
    }
}

impl<'ast> Visit<'ast> for Accesses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports(&item.tree, false);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter().rev();
        let last = segments.next().map(|it| it.ident.to_string());
        if segments.any(|it| it.ident == "bindings") {
            self.bindings.extend(last);
        }
        visit::visit_path(self, path);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.variables.clear();
        for argument in &signature.inputs {
            if let FnArg::Typed(argument) = argument
                && let syn::Pat::Ident(name) = &*argument.pat
            {
                let structure = pointee(&argument.ty);
                self.variables.insert(name.ident.to_string(), structure);
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let (pattern, stated) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, Some(pointee(&typed.ty))),
            pattern => (pattern, None),
        };
        if let syn::Pat::Ident(name) = pattern {
            let value = local.init.as_ref().map(|it| &*it.expr);
            let structure = stated.or_else(|| self.structure(value?));
            // A shadowed variable's structure is no longer known.
            match structure {
                Some(it) => self.variables.insert(name.ident.to_string(), it),
                None => self.variables.remove(&name.ident.to_string()),
            };
        }
    }

    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        let (field, root) = chain(field);
        let structure = self.structure(root);
        self.all.insert(Access { structure, field });
        self.visit_expr(root);
    }

    fn visit_expr_struct(&mut self, built: &'ast syn::ExprStruct) {
        self.whole(&built.path, built.fields.iter().map(|it| &it.member));
        visit::visit_expr_struct(self, built);
    }

    fn visit_pat_struct(&mut self, pattern: &'ast syn::PatStruct) {
        self.whole(&pattern.path, pattern.fields.iter().map(|it| &it.member));
        visit::visit_pat_struct(self, pattern);
    }

    /// Arguments of `addr_of!` and the like.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        type Arguments = Punctuated<syn::Expr, syn::Token![,]>;
        if let Ok(arguments) = call.parse_body_with(Arguments::parse_terminated) {
            // They outlive no borrow of the file, so they are visited as a copy.
            let mut copy = Self {
                variables: self.variables.clone(),
                ..Self::default()
            };
            for argument in &arguments {
                copy.visit_expr(argument);
            }
            self.all.extend(copy.all);
            self.whole.extend(copy.whole);
            self.bindings.extend(copy.bindings);
        }
    }
}

/// The fields of our own structures.
struct OwnFields(BTreeSet<String>);

impl<'ast> Visit<'ast> for OwnFields {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.0.extend(field.ident.as_ref().map(|it| it.to_string()));
    }
}

/// Rows of `layout.c`: the arguments of a macro, the second empty if there is one only.
fn rows(layout: &str, kind: &str) -> BTreeSet<(String, String)> {
    let start = format!("\tWEFT_{kind}(");
    let rows = layout.lines().filter_map(|it| it.strip_prefix(&start));
    let arguments = rows.map(|it| it.strip_suffix("),").expect("a row ends in `),`"));
    let split = arguments.map(|it| it.split_once(", ").unwrap_or((it, "")));
    split.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// What code touches and the list lacks, and what the list has and no code touches.
fn differences(code: &[syn::File], common: &[syn::File], layout: &str) -> BTreeSet<String> {
    let fields = rows(layout, "FIELD");
    let names = |kind| -> BTreeSet<String> {
        rows(layout, kind)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    let (structures, constants) = (names("SIZE"), names("CONSTANT"));
    let accesses = Accesses::of(code);
    let mut own_fields = OwnFields(["start", "end"].map(str::to_owned).into()); // of ranges
    let ours = code.iter().chain(common);
    ours.for_each(|it| own_fields.visit_file(it));
    let is_kernels = |it: &String| structures.contains(it) || accesses.bindings.contains(it);
    let mut differences = BTreeSet::new();
    for Access { structure, field } in &accesses.all {
        let is_right = match structure {
            Some(it) => !is_kernels(it) || fields.contains(&(it.clone(), field.clone())),
            None => {
                let first = field.split('.').next().unwrap_or(field);
                first.parse::<u32>().is_ok()
                    || own_fields.0.contains(first)
                    || fields.iter().any(|(_, it)| it == field)
            }
        };
        if !is_right {
            let structure = structure.as_deref().unwrap_or("?");
            differences.insert(format!("{structure}.{field} is not listed"));
        }
    }
    for structure in accesses.whole.iter().filter(|it| is_kernels(it)) {
        if !structures.contains(structure) {
            differences.insert(format!("the size of {structure} is not listed"));
        }
    }
    let offsets = accesses
        .bindings
        .iter()
        .filter(|it| OFFSETS.iter().any(|of| it.starts_with(of)));
    for offset in offsets.filter(|it| !constants.contains(*it)) {
        differences.insert(format!("{offset} is not listed"));
    }
    let touches = |(structure, field): &&(String, String)| {
        let is_it = |it: &Access| {
            let same = it
                .structure
                .as_ref()
                .is_none_or(|it| it == structure || !is_kernels(it));
            same && it.field == *field
        };
        accesses.all.iter().any(is_it)
    };
    for (structure, field) in fields.iter().filter(|it| !touches(it)) {
        differences.insert(format!("nothing touches {structure}.{field}"));
    }
    differences
}

/// How constants begin that are offsets of fields which Rust reads by address.
const OFFSETS: [&str; 2] = ["WEFT_SKB_", "WEFT_CB_"];

/// `layout.c` is compared with Rust's layout when a module is loaded, so a field that it lacks is
/// never compared.
///
/// The test knows the structure of a pointer or reference if that is a parameter, a variable with a
/// stated type, or the result of `cast::<…>()`, and that of each literal and pattern. Elsewhere it
/// judges by the name of the field alone: it must be in the list, under any structure, or be a
/// field of one of kapi's or `common`'s own structures. It does not see fields in the definition of
/// a macro, nor those behind `*const c_void`.
#[test]
fn layout_lists_exactly_the_fields_of_the_kernel_that_rust_touches() {
    let layout = fs::read_to_string(kmod().join("kapi/layout.c")).unwrap();
    let code = files("kapi");
    let found = differences(&code, &files("common"), &layout);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_field_that_layout_lacks_is_found() {
    let layout = "\tWEFT_SIZE(Qdisc, struct Qdisc),\n\tWEFT_FIELD(Qdisc, q.qlen),\n\
                  \tWEFT_FIELD(Qdisc, flags),\n\tWEFT_CONSTANT(WEFT_SKB_LEN),\n";
    let text = "
        use super::bindings::{sk_buff, Qdisc, WEFT_CB_DATA, WEFT_SKB_LEN};
        struct Own { limit: u32 }
        fn listed(sch: *mut Qdisc, own: &Own) -> u32 { unsafe { (*sch).q.qlen + own.limit } }
        fn as_ours(sch: *mut Qdisc) -> u32 { unsafe { (*sch).limit } }
        fn in_a_macro(sch: *mut bindings::Qdisc) { addr_of!((*sch).handle); }
        fn cast(it: *mut u8) { let sch = it.cast::<Qdisc>(); unsafe { (*sch).q.lock = 1 } }
        fn unknown() { unsafe { (*f()).padded } }
        fn built() -> sk_buff { sk_buff { len: 0, ..zeroed() } }
        fn bound(sch: &Qdisc) { let bindings::Qdisc { state, .. } = sch; }";
    let found = differences(&[parse(text)], &[], layout);
    let expected = [
        "?.padded is not listed",
        "Qdisc.handle is not listed",
        "Qdisc.limit is not listed",
        "Qdisc.q.lock is not listed",
        "Qdisc.state is not listed",
        "WEFT_CB_DATA is not listed",
        "nothing touches Qdisc.flags",
        "sk_buff.len is not listed",
        "the size of sk_buff is not listed",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}
