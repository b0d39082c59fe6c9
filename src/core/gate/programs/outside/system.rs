//! What changes the machine.

use super::super::{Objection, Run, foreign, never, refused};
use super::{has, verbs};

pub(super) fn system(run: &Run<'_>) -> Objection {
    let verbs = verbs(run);
    match run.name {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" | "gosu" | "su-exec" | "run0" | "sg" | "newgrp" => {
            never("it becomes somebody else; unattended sessions work as the user they run as")
        }
        "chroot" | "unshare" | "nsenter" | "bwrap" | "firejail" | "setpriv" => {
            refused("it changes what the machine looks like to a command")
        }
        "shutdown" | "reboot" | "halt" | "poweroff" | "telinit" | "init" | "stop-computer"
        | "restart-computer" | "kexec" => never("it stops the machine"),
        "fdisk" | "sfdisk" | "gdisk" | "sgdisk" | "parted" | "wipefs" | "blkdiscard" | "mkswap"
        | "swapon" | "swapoff" | "mount" | "umount" | "losetup" | "cryptsetup" | "lvremove" | "vgremove"
        | "pvremove" | "zpool" | "zfs" | "mdadm" | "hdparm" | "diskutil" | "format" | "badblocks"
        | "tune2fs" | "fsck" | "format-volume" | "clear-disk" => never("it works on disks"),
        name if name.starts_with("mkfs") || name.starts_with("mke2fs") || name.starts_with("newfs") => {
            never("it works on disks")
        }
        "systemctl" | "service" | "launchctl" | "rc-service" | "initctl" | "loginctl" | "sc" => {
            let looks = [
                "status",
                "is-active",
                "is-enabled",
                "list-units",
                "list-timers",
                "list-unit-files",
                "show",
                "cat",
                "list",
                "print",
                "list-sessions",
            ];
            let looks = verbs.iter().take(2).any(|verb| looks.contains(&verb.as_str()));
            if looks {
                foreign("it looks at the services of the machine")
            } else {
                refused("it changes the services of the machine")
            }
        }
        "useradd" | "userdel" | "usermod" | "groupadd" | "groupdel" | "passwd" | "chpasswd" | "visudo"
        | "adduser" | "deluser" | "chsh" | "dscl" => refused("it changes the users of the machine"),
        "insmod" | "rmmod" | "modprobe" | "sysctl" | "iptables" | "ip6tables" | "nft" | "ufw"
        | "firewall-cmd" | "pfctl" | "setenforce" | "defaults" | "csrutil" | "spctl" | "reg" | "bcdedit"
        | "update-grub" | "grub-install" | "efibootmgr" | "hostnamectl" | "timedatectl" | "nvram" => {
            let looks = run.name == "sysctl"
                && (has(run, &["-a", "-n"]) || verbs.iter().all(|verb| !verb.contains('=')))
                && !has(run, &["-w", "-p"])
                || has(run, &["query", "read", "status", "list", "-l", "-L"]);
            if looks {
                foreign("it looks at the settings of the machine")
            } else {
                refused("it changes the settings of the machine")
            }
        }
        "ip" | "ifconfig" | "route" => {
            if has(run, &["add", "del", "delete", "set", "flush", "down", "up"]) {
                refused("it changes the network of the machine")
            } else {
                foreign("it looks at the network")
            }
        }
        "at" | "batch" => refused("it changes what the machine runs later"),
        "history" if has(run, &["-c", "-d", "-w"]) => refused("it removes the history of the shell"),
        "env" | "printenv" if run.arguments.is_empty() => {
            foreign("it prints the environment, secrets and all")
        }
        "compgen" | "dmesg" | "journalctl"
            if has(run, &["--vacuum-size", "--vacuum-time", "-c", "-C"])
                || run.arguments.iter().any(|argument| argument.shown().starts_with("--vacuum")) =>
        {
            refused("it removes logs")
        }
        "claude" | "autopilot" | "codex" | "gemini" => {
            if has(run, &["--version", "-v", "--help", "-h", "status", "doctor"]) {
                None
            } else {
                refused("it starts or steers another agent; this session has its own budget and rules")
            }
        }
        _ => None,
    }
}
