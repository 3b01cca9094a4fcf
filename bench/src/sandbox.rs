//! `axplab run --sandbox`: confines this process, and with it the guest and all that it starts, to the
//! files and the network that were allowed. Called by `guest.rs` before anything starts a thread.
//!
//! Two features of the host's kernel do the work: Landlock knows files by path and TCP, seccomp the
//! system calls. Neither can be taken back, and children and executed programs inherit both. What
//! neither covers is said in `docs/isolation.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// What the guest may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files, and folders with all below them, to read and execute.
    pub read: Vec<PathBuf>,
    /// The same to write, create and remove as well.
    pub write: Vec<PathBuf>,
    /// Whether it may use TCP.
    pub net: bool,
}

/// Landlock without which the confinement would have a hole: the third version, of Linux 6.2, knows
/// truncation. What later ones add (ioctl of devices, TCP, signals) is taken where it is there.
const REQUIRED: ABI = ABI::V3;
const WANTED: ABI = ABI::V6;

impl Sandbox {
    /// Confines this process, from now on and for ever. `needed` is read and executed whatever was
    /// allowed: the program, its interpreter, this emulator.
    pub fn enter(&self, needed: &[PathBuf]) -> anyhow::Result<()> {
        // A filter holds in the thread that sets it up and in those that it makes.
        let threads = std::fs::read_dir("/proc/self/task").context("cannot count threads")?.count();
        ensure!(
            threads == 1,
            "--sandbox: {threads} threads run already; this is a fault of axplab"
        );
        self.restrict_files(needed)?;
        self.restrict_calls()
    }

    fn restrict_files(&self, needed: &[PathBuf]) -> anyhow::Result<()> {
        let missing = "--sandbox needs Landlock as of Linux 6.2, which this host's kernel does not offer; \
                       run without --sandbox only what you trust";
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))
            .context(missing)?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .scope(Scope::from_all(WANTED))?;
        if !self.net {
            rules = rules.handle_access(AccessNet::from_all(WANTED))?;
        }
        let mut rules = rules.create().context(missing)?;
        for path in needed {
            rules = allow(rules, path, AccessFs::from_read(WANTED))?;
        }
        for path in &self.read {
            rules = allow(rules, path, AccessFs::from_read(WANTED))?;
        }
        for path in &self.write {
            rules = allow(rules, path, AccessFs::from_all(WANTED))?;
        }
        let status = rules.restrict_self().context(missing)?;
        ensure!(status.ruleset != RulesetStatus::NotEnforced && status.no_new_privs, missing);
        Ok(())
    }

    fn restrict_calls(&self) -> anyhow::Result<()> {
        for (errno, calls) in [
            (libc::EACCES, self.sockets()),
            (libc::EPERM, self.dangers()),
            // The library falls back to clone, whose flags a filter can see.
            (libc::ENOSYS, vec![Refusal::always(libc::SYS_clone3)]),
        ] {
            let program = filter(errno, calls).context("--sandbox: no filter of system calls")?;
            seccompiler::apply_filter(&program).context(
                "--sandbox needs seccomp filters, which this host's kernel does not offer; \
                 run without --sandbox only what you trust",
            )?;
        }
        Ok(())
    }

    /// Sockets but TCP's, and those too if there is no network; pairs of local ones stay, since they
    /// lead nowhere.
    fn sockets(&self) -> Vec<Refusal> {
        let mut all = vec![Refusal::when(libc::SYS_socketpair, &[(0, NOT, libc::AF_UNIX as u64)])];
        if !self.net {
            all.push(Refusal::always(libc::SYS_socket));
            return all;
        }
        let internet = [(0, NOT, libc::AF_INET as u64), (0, NOT, libc::AF_INET6 as u64)];
        all.push(Refusal::when(libc::SYS_socket, &internet));
        let others = (0..16u64).filter(|&kind| kind != libc::SOCK_STREAM as u64);
        all.extend(others.map(|kind| Refusal::when(libc::SYS_socket, &[(1, bits(0xf), kind)])));
        // SCTP and multipath TCP are streams as well, and unknown to Landlock.
        let tcp = [(2, NOT, 0), (2, NOT, libc::IPPROTO_TCP as u64)];
        all.push(Refusal::when(libc::SYS_socket, &tcp));
        all
    }

    /// Ways around the rest: other processes' memory, rings that make calls by themselves, name
    /// spaces, mounts, modules, a terminal's input. And, where nothing may be written, what Landlock
    /// does not see: modes, owners, times, attributes.
    fn dangers(&self) -> Vec<Refusal> {
        let always = [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_process_madvise,
            libc::SYS_pidfd_getfd,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_bpf,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_mount_setattr,
            libc::SYS_name_to_handle_at,
            libc::SYS_open_by_handle_at,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_kexec_file_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_mknod,
            libc::SYS_mknodat,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_keyctl,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
        ];
        const SPACES: [i32; 7] = [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
        ];
        let mut all: Vec<Refusal> = always.into_iter().map(Refusal::always).collect();
        all.extend(SPACES.map(|flag| {
            let flag = u64::from(flag as u32);
            Refusal::when(libc::SYS_clone, &[(0, bits(flag), flag)])
        }));
        // TIOCSTI and TIOCLINUX put words into the mouth of whoever sits at the terminal.
        all.extend(
            [libc::TIOCSTI, libc::TIOCLINUX]
                .map(|request| Refusal::when(libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, request)])),
        );
        if self.write.is_empty() {
            let metadata = [
                libc::SYS_chmod,
                libc::SYS_fchmod,
                libc::SYS_fchmodat,
                libc::SYS_fchmodat2,
                libc::SYS_chown,
                libc::SYS_fchown,
                libc::SYS_lchown,
                libc::SYS_fchownat,
                libc::SYS_utime,
                libc::SYS_utimes,
                libc::SYS_futimesat,
                libc::SYS_utimensat,
                libc::SYS_setxattr,
                libc::SYS_lsetxattr,
                libc::SYS_fsetxattr,
                libc::SYS_removexattr,
                libc::SYS_lremovexattr,
                libc::SYS_fremovexattr,
            ];
            all.extend(metadata.map(Refusal::always));
        }
        all
    }
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> anyhow::Result<RulesetCreated> {
    let what = || format!("--sandbox cannot allow `{}`", path.display());
    let is_file = !std::fs::metadata(path).with_context(what)?.is_dir();
    let fd = PathFd::new(path).with_context(what)?;
    // Rights on what folders hold mean nothing on a file.
    let access = if is_file { access & AccessFs::from_file(WANTED) } else { access };
    rules.add_rule(PathBeneath::new(fd, access)).with_context(what)
}

const NOT: SeccompCmpOp = SeccompCmpOp::Ne;

/// Equal in these bits.
fn bits(mask: u64) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(mask)
}

/// A system call and the arguments with which it is refused: all of the conditions hold.
struct Refusal {
    call: c_long,
    conditions: Vec<(u8, SeccompCmpOp, u64)>,
}

impl Refusal {
    fn always(call: c_long) -> Self {
        Refusal { call, conditions: Vec::new() }
    }

    fn when(call: c_long, conditions: &[(u8, SeccompCmpOp, u64)]) -> Self {
        Refusal { call, conditions: conditions.to_vec() }
    }
}

/// Calls of the x32 interface have this bit. It is another door to the same kernel: closed for
/// whatever is refused here under any condition.
const X32: c_long = 0x4000_0000;
/// x32's own numbers of ptrace, process_vm_readv, process_vm_writev.
const X32_OWN: [c_long; 3] = [521, 539, 540];

/// A filter that answers these calls with `errno`. (It kills what calls the kernel in the i386 way.)
fn filter(errno: i32, refused: Vec<Refusal>) -> anyhow::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut whole: BTreeSet<i64> = X32_OWN.map(|call| call | X32).into();
    for Refusal { call, conditions } in refused {
        whole.insert(call | X32);
        if conditions.is_empty() {
            whole.insert(call);
            continue;
        }
        let conditions = conditions.into_iter().map(|(argument, op, value)| {
            // The kernel reads these arguments as longwords.
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
    }
    // No rule at all means every argument.
    rules.extend(whole.into_iter().map(|call| (call, Vec::new())));
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        bail!("--sandbox is not built for {}", std::env::consts::ARCH);
    };
    let answer = SeccompAction::Errno(errno as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()?)
}

/// This program's own file, and the libraries and the loader that it runs with: what executing another
/// Alpha program takes.
pub fn own_files() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| {
        let rights = line.split_whitespace().nth(1)?;
        let path = &line[line.find('/')?..];
        (rights.contains('x') && Path::new(path).is_file()).then(|| PathBuf::from(path))
    });
    let cache = PathBuf::from("/etc/ld.so.cache");
    let mut all: Vec<PathBuf> = mapped.chain(Some(cache).filter(|path| path.exists())).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_fit_into_the_kernels_limit() {
        for sandbox in [
            Sandbox::default(),
            Sandbox { net: true, write: vec!["/tmp".into()], ..Sandbox::default() },
        ] {
            for calls in [sandbox.sockets(), sandbox.dangers()] {
                let program = filter(libc::EPERM, calls).unwrap();
                assert!(program.len() < 4096, "{}", program.len());
            }
        }
    }

    #[test]
    fn the_programs_own_files_are_found() {
        let own = own_files();
        let me = std::env::current_exe().unwrap();
        assert!(own.contains(&me), "{own:?}");
        assert!(own.iter().any(|path| path.to_string_lossy().contains("libc.so")), "{own:?}");
    }
}
