#!/bin/sh
# The first program of busybox.cpio. What the kernel does not know of its command line comes as arguments:
# commands, parallel, idle or shell, one after the other; a shell if there is none. Ends in a power-off.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
export PATH=/sbin:/usr/sbin:/bin:/usr/bin HOME=/ TZ=UTC LC_ALL=C
[ $# = 0 ] && set -- shell
for word; do
    echo "init: $word"
    case $word in
    commands)
        mkdir -p /tmp/work
        # By a pipe, so that nothing sees a terminal.
        (cd /tmp/work && env -i PATH=$PATH HOME=/ TZ=UTC LC_ALL=C ash /commands </dev/null 2>&1 | cat)
        ;;
    parallel) sh /parallel ;;
    idle) sleep 10 ;;
    shell) setsid cttyhack sh ;;
    esac
done
echo "init: done"
poweroff -f
