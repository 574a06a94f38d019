// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names for shell completion: those that exist when the key is pressed.
//!
//! Written by hand, because clap_complete's dynamic engine requires an unstable feature, which
//! would enable another unstable feature of clap for all programs here.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use weft_lab::{experiment, scheme};
use weft_load::sizes::TABLES;
use weft_topo::spec::KINDS;

use crate::output;

/// Print names, one per line, for shell completion
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kind of names
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    Schemes,
    Workloads,
    Topologies,
    Experiments,
    /// Nodes of all existing testbeds
    Nodes,
    Testbeds,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Without privileges the list is empty.
    let testbeds = || weft_net::list().unwrap_or_default();
    let mut names: Vec<String> = match args.of {
        Of::Schemes => owned(&scheme::names()),
        Of::Workloads => TABLES.iter().map(|table| table.name.to_owned()).collect(),
        Of::Topologies => owned(KINDS),
        Of::Experiments => owned(&experiment::names()),
        Of::Nodes => testbeds()
            .iter()
            .flat_map(|it| it.nodes().to_vec())
            .collect(),
        Of::Testbeds => testbeds().iter().map(|it| it.name().to_owned()).collect(),
    };
    names.sort();
    names.dedup();
    names.iter().try_for_each(output::print)?;
    Ok(ExitCode::SUCCESS)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Bash code after clap's `_weft`, which completes everything except names.
pub(crate) const BASH: &str = r#"
_weft_or_names() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} of= list=
    case $before in
        --scheme) of=schemes ;;
        --workload) of=workloads ;;
        --testbed|down) of=testbeds ;;
        up|topology) of=topologies ;;
        run) of="topologies experiments" ;;
        exec|shell|capture) of=nodes ;;
        show|export) [[ ${COMP_WORDS[1]} == schemes ]] && of=schemes
                     [[ ${COMP_WORDS[1]} == experiments ]] && of=experiments ;;
    esac
    if [[ -z $of || $word == -* ]]; then
        _weft "$@"
        return
    fi
    # Of a list, the last one.
    [[ $word == *,* ]] && list=${word%,*},
    local names
    names=$(for kind in $of; do "$1" names "$kind" 2> /dev/null; done)
    COMPREPLY=($(compgen -P "$list" -W "$names" -- "${word##*,}"))
    # Folders and files, too, of what may be one.
    case $of in schemes|topologies*) COMPREPLY+=($(compgen -f -- "$word")) ;; esac
}
complete -F _weft_or_names -o nosort -o bashdefault -o default weft
"#;
