//! The devices on PCI, driven as a kernel does, and as no kernel would: through physical addresses.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::{Clipper, Disk, Interrupt, Network};
use crate::machine::Console;
use crate::mem::Physical;

const CONFIG: u64 = 0x801_fe00_0000 + (6 << 11);
const CCHIP: u64 = 0x801_a000_0000;
const BAR: u64 = 0x0900_0000;
const MEMORY: u64 = 0x800_0000_0000 + BAR;
/// Where the rings are.
const DESCRIPTORS: u64 = 0x10000;
const AVAILABLE: u64 = 0x12000;
const USED: u64 = 0x14000;

/// A machine with a disk of eight sectors, each filled with its number.
struct Rig {
    physical: Physical,
    platform: Arc<Clipper>,
    image: PathBuf,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.image);
    }
}

impl Rig {
    fn new() -> Self {
        Rig::with(false)
    }

    fn with(read_only: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("axplab-disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let image = std::env::temp_dir().join(name);
        let sectors: Vec<u8> = (0..8u8).flat_map(|i| [i; 512]).collect();
        fs::write(&image, sectors).unwrap();
        let platform = Arc::new(Clipper::new(Console::Kept, 1));
        let mut physical = Physical::new(1 << 20).unwrap();
        platform.attach(&mut physical);
        platform.plug(&physical, vec![Disk::open(&image, read_only).unwrap()], None);
        Rig { physical, platform, image }
    }

    /// A machine with a network card alone, whose other end moves nothing.
    fn network() -> Self {
        let platform = Arc::new(Clipper::new(Console::Kept, 1));
        let mut physical = Physical::new(1 << 20).unwrap();
        platform.attach(&mut physical);
        platform.plug(&physical, Vec::new(), Some(Network::open("user").unwrap()));
        Rig { physical, platform, image: PathBuf::new() }
    }

    /// The network's own end.
    fn wire(&self) -> &super::net::Wire {
        self.platform.wire.get().unwrap()
    }

    fn load(&self, pa: u64, size: u64) -> u64 {
        self.physical.load(pa, size).unwrap() & u64::MAX >> (64 - 8 * size)
    }

    fn store(&self, pa: u64, size: u64, value: u64) {
        self.physical.store(pa, size, value).unwrap();
    }

    /// Starts the device with a queue of 16, its addresses being physical.
    fn start(&self) {
        self.store(CONFIG + 0x10, 4, BAR);
        self.store(CONFIG + 4, 2, 6);
        self.store(MEMORY + 20, 1, 3);
        // The one offers a flush, the other merged buffers.
        let offered = if self.image.as_os_str().is_empty() { 1 << 15 } else { 1 << 9 };
        for (select, features) in [(0, offered), (1, 1)] {
            self.store(MEMORY + 8, 4, select);
            self.store(MEMORY + 12, 4, features);
        }
        self.store(MEMORY + 20, 1, 11);
        assert_eq!(self.load(MEMORY + 20, 1), 11, "FEATURES_OK stays");
        self.store(MEMORY + 24, 2, 16);
        for (at, address) in [(32, DESCRIPTORS), (40, AVAILABLE), (48, USED)] {
            self.store(MEMORY + at, 8, address);
        }
        self.store(MEMORY + 28, 2, 1);
        self.store(MEMORY + 20, 1, 15);
    }

    fn describe(&self, index: u64, (address, length, flags, next): (u64, u64, u64, u64)) {
        let at = DESCRIPTORS + 16 * index;
        self.store(at, 8, address);
        self.store(at + 8, 8, length & 0xffff_ffff | flags << 32 | next << 48);
    }

    /// Hands over chain 0, `count` chains being handed over with it.
    fn hand_over(&self, count: u64) {
        self.store(AVAILABLE + 2, 2, count);
        self.store(MEMORY + 0x3000, 2, 0);
    }

    /// A request at 0x20000, its data at 0x21000; gives the status.
    fn request(&self, count: u64, kind: u64, sector: u64, length: u64) -> u64 {
        self.store(0x20000, 8, kind);
        self.store(0x20008, 8, sector);
        self.describe(0, (0x20000, 16, 1, 1));
        self.describe(1, (0x21000, length, if kind == 0 { 3 } else { 1 }, 2));
        self.describe(2, (0x20010, 1, 2, 0));
        self.store(0x20010, 1, 0xee);
        self.hand_over(count);
        self.load(0x20010, 1)
    }

    fn needs_reset(&self) -> bool {
        self.load(MEMORY + 20, 1) & 0x40 != 0
    }
}

#[test]
fn configuration_space_shows_one_card() {
    let rig = Rig::new();
    assert_eq!(rig.load(CONFIG, 4), 0x1042_1af4);
    assert_eq!(rig.load(CONFIG + 0x100, 4), 0xffff_ffff, "no second function");
    assert_eq!(rig.load(CONFIG - 0x800, 4), 0xffff_ffff, "no other device");
    rig.store(CONFIG + 0x10, 4, 0xffff_ffff);
    assert_eq!(rig.load(CONFIG + 0x10, 4), 0xffff_c000, "16 KB");
    rig.store(CONFIG, 4, 0);
    assert_eq!(rig.load(CONFIG, 2), 0x1af4, "not to be written");
    assert_eq!(rig.load(MEMORY + 18, 2), 0xffff, "no memory before it is enabled");
    let (mut at, mut kinds) = (rig.load(CONFIG + 0x34, 1), Vec::new());
    while at != 0 {
        kinds.push(rig.load(CONFIG + at + 3, 1));
        at = rig.load(CONFIG + at + 1, 1);
    }
    assert_eq!(kinds, [1, 2, 3, 4, 5]);
    // The number of queues, through configuration space.
    rig.store(CONFIG + 0x10, 4, BAR);
    let access = 0x40 + 16 + 20 + 16 + 16;
    rig.store(CONFIG + access + 8, 4, 18);
    rig.store(CONFIG + access + 12, 4, 2);
    assert_eq!(rig.load(CONFIG + access + 16, 2), 1);
}

#[test]
fn requests_are_served_and_interrupt() {
    let rig = Rig::new();
    rig.start();
    // The line of a Clipper is enabled.
    rig.store(CCHIP + 0x200, 8, 1 << 28);
    assert_eq!(rig.request(1, 0, 3, 1024), 0);
    assert_eq!((rig.load(0x21000, 1), rig.load(0x21200, 1)), (3, 4));
    assert_eq!((rig.load(USED + 2, 2), rig.load(USED + 8, 4)), (1, 1025));
    let vector = rig.platform.accept(0, |_| true);
    assert_eq!(vector, Some(Interrupt::Device(0x900 + 16 * 28)));
    assert_eq!(rig.load(CCHIP + 0x300, 8), 1 << 28 | 1 << 19, "a DP264 has another line");
    assert_eq!(rig.load(MEMORY + 0x1000, 1), 1);
    assert_eq!(rig.platform.accept(0, |_| true), None, "reading ends it");
    rig.store(0x21000, 8, 0x55);
    assert_eq!(rig.request(2, 1, 7, 512), 0);
    assert_eq!(fs::read(&rig.image).unwrap()[7 * 512], 0x55);
    assert_eq!(rig.request(3, 4, 0, 0), 0, "flush");
    assert_eq!(rig.request(4, 0, 7, 1024), 1, "beyond the end");
    assert_eq!(rig.request(5, 0, u64::MAX, 512), 1);
    assert_eq!(rig.request(6, 0, 0, 100), 1, "part of a sector");
    assert_eq!(rig.request(7, 99, 0, 512), 2, "no such request");
    assert!(!rig.needs_reset());
    // The host has taken the file away.
    File::options().write(true).open(&rig.image).unwrap().set_len(0).unwrap();
    assert_eq!(rig.request(8, 0, 0, 512), 1);
}

#[test]
fn what_cannot_be_right_asks_for_a_reset_and_is_served_after_one() {
    let wrong: [&dyn Fn(&Rig); 6] = [
        &|rig| rig.describe(0, (0x2000_0000, 16, 1, 1)),
        &|rig| rig.describe(0, (0x20000, 15, 1, 2)),
        &|rig| rig.describe(0, (u64::MAX - 3, 16, 1, 1)),
        &|rig| rig.describe(2, (0x20010, 1, 0, 0)),
        &|rig| rig.store(AVAILABLE + 4, 2, 16),
        &|rig| rig.store(AVAILABLE + 2, 2, 17),
    ];
    for (i, spoil) in wrong.iter().enumerate() {
        let rig = Rig::new();
        rig.start();
        rig.store(0x20000, 8, 0);
        rig.describe(0, (0x20000, 16, 1, 1));
        rig.describe(1, (0x21000, 512, 1, 2));
        rig.describe(2, (0x20010, 1, 2, 0));
        rig.store(AVAILABLE + 2, 2, 1);
        spoil(&rig);
        rig.store(MEMORY + 0x3000, 2, 0);
        assert!(rig.needs_reset(), "{i}");
        rig.store(MEMORY + 20, 1, 0);
        assert_eq!(rig.load(MEMORY + 20, 1), 0);
        rig.store(AVAILABLE, 8, 0);
        rig.start();
        assert_eq!(rig.request(1, 0, 1, 512), 0, "{i}");
    }
}

#[test]
fn a_disk_that_is_read_only_says_so_and_takes_no_writes() {
    let rig = Rig::with(true);
    rig.start();
    rig.store(MEMORY, 4, 0);
    assert_eq!(rig.load(MEMORY + 4, 4) & 1 << 5, 1 << 5, "VIRTIO_BLK_F_RO");
    assert_eq!(rig.request(1, 0, 2, 512), 0);
    assert_eq!(rig.request(2, 1, 2, 512), 1, "a write");
    assert_eq!(rig.request(3, 4, 0, 0), 0, "flush");
    assert_eq!(fs::read(&rig.image).unwrap()[2 * 512], 2);
    assert!(!rig.needs_reset());
}

#[test]
fn a_queue_outside_memory_is_refused() {
    let rig = Rig::new();
    rig.start();
    rig.store(MEMORY + 20, 1, 0);
    rig.store(MEMORY + 32, 8, 0x7fff_0000);
    rig.store(MEMORY + 28, 2, 1);
    assert_eq!(rig.load(MEMORY + 28, 2), 0);
    assert!(rig.needs_reset());
}

#[test]
fn frames_go_out_and_come_in_over_several_buffers() {
    let rig = Rig::network();
    assert_eq!(rig.load(CONFIG, 4), 0x1041_1af4);
    rig.start();
    rig.store(CCHIP + 0x200, 8, 1 << 28);
    rig.wire().give(vec![(0..100).collect(), vec![7; 60]]);
    // Two buffers are too few for the first frame, and nothing is lost of them.
    rig.describe(0, (0x21000, 40, 2, 0));
    rig.describe(1, (0x22000, 40, 2, 0));
    rig.describe(2, (0x23000, 2000, 2, 0));
    for i in 0..3 {
        rig.store(AVAILABLE + 4 + 2 * i, 2, i);
    }
    rig.hand_over(2);
    assert_eq!(rig.load(USED + 2, 2), 0);
    rig.hand_over(3);
    assert_eq!(rig.load(USED + 2, 2), 3);
    assert_eq!(rig.load(0x21000 + 10, 2), 3, "buffers of the frame");
    let lengths: Vec<u64> = (0..3).map(|i| rig.load(USED + 8 + 8 * i, 4)).collect();
    assert_eq!(lengths, [40, 40, 32]);
    let at = [(0x21000 + 12, 0), (0x22000, 28), (0x23000, 68), (0x23000 + 31, 99)];
    assert!(at.iter().all(|&(at, byte)| rig.load(at, 1) == byte));
    let vector = rig.platform.accept(0, |_| true);
    assert_eq!(vector, Some(Interrupt::Device(0x900 + 16 * 28)));
    assert!(!rig.needs_reset());
    // Out, by the second queue.
    rig.store(MEMORY + 22, 2, 1);
    let [descriptors, available, used] = [0x30000, 0x32000, 0x34000];
    rig.store(MEMORY + 24, 2, 16);
    for (at, address) in [(32, descriptors), (40, available), (48, used)] {
        rig.store(MEMORY + at, 8, address);
    }
    rig.store(MEMORY + 28, 2, 1);
    rig.store(descriptors, 8, 0x23000);
    rig.store(descriptors + 8, 8, 12 + 50);
    rig.store(0x23000 + 12, 8, 0x1234);
    rig.store(available + 2, 2, 1);
    rig.store(MEMORY + 0x3004, 2, 1);
    let (frames, more) = rig.wire().take();
    assert!(!more && frames.len() == 1 && frames[0].len() == 50);
    assert_eq!(frames[0][..2], [0x34, 0x12]);
    assert_eq!(rig.load(used + 2, 2), 1);
    // A buffer that has no room for the header before a frame.
    rig.store(available + 2, 2, 2);
    rig.store(descriptors + 8, 8, 11);
    rig.store(MEMORY + 0x3004, 2, 1);
    assert!(rig.needs_reset());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rings of anything - loops, tables within tables, addresses and lengths from nowhere - end, and
    /// touch nothing but RAM and the sectors of the disk.
    #[test]
    fn hostile_rings_end(
        descriptors in proptest::collection::vec(
            (
                prop_oneof![0u64..0x30000, 0xf_f000u64..0x10_1000, any::<u64>()],
                prop_oneof![Just(16u64), Just(512), Just(1), 0u64..0x2000, any::<u64>()],
                0u64..8,
                0u64..20,
            ),
            16,
        ),
        heads in proptest::collection::vec(0u64..18, 16),
        count in 0u64..20,
        kind in prop_oneof![0u64..10, any::<u64>()],
        sector in prop_oneof![0u64..10, any::<u64>()],
    ) {
        let rig = Rig::new();
        rig.start();
        for (i, descriptor) in descriptors.into_iter().enumerate() {
            rig.describe(i as u64, descriptor);
        }
        for (i, head) in heads.into_iter().enumerate() {
            rig.store(AVAILABLE + 4 + 2 * i as u64, 2, head);
        }
        for at in (0x18000..0x30000u64).step_by(16) {
            rig.store(at, 8, kind);
            rig.store(at + 8, 8, sector);
        }
        rig.hand_over(count);
        prop_assert_eq!(fs::metadata(&rig.image).unwrap().len(), 8 * 512);
        prop_assert!(rig.needs_reset() || rig.load(USED + 2, 2) == count);
    }

    /// The same of a card's, either queue being the one.
    #[test]
    fn hostile_rings_of_a_card_end(
        descriptors in proptest::collection::vec(
            (
                prop_oneof![0u64..0x30000, 0xf_f000u64..0x10_1000, any::<u64>()],
                prop_oneof![Just(2000u64), Just(12), Just(1), 0u64..0x2000, any::<u64>()],
                0u64..8,
                0u64..20,
            ),
            16,
        ),
        heads in proptest::collection::vec(0u64..18, 16),
        count in 0u64..20,
        queue in 0u64..2,
        merge in any::<bool>(),
    ) {
        let rig = Rig::network();
        rig.start();
        if !merge || queue == 1 {
            rig.store(MEMORY + 20, 1, 0);
            rig.store(MEMORY + 20, 1, 3);
            rig.store(MEMORY + 8, 4, 1);
            rig.store(MEMORY + 12, 4, 1);
            rig.store(MEMORY + 20, 1, 11);
            rig.store(MEMORY + 22, 2, queue);
            for (at, address) in [(32, DESCRIPTORS), (40, AVAILABLE), (48, USED)] {
                rig.store(MEMORY + at, 8, address);
            }
            rig.store(MEMORY + 28, 2, 1);
            rig.store(MEMORY + 20, 1, 15);
        }
        rig.wire().give(vec![vec![1; 60], vec![2; 9000], vec![3; 65000], vec![4; 14]]);
        for (i, descriptor) in descriptors.into_iter().enumerate() {
            rig.describe(i as u64, descriptor);
        }
        for (i, head) in heads.into_iter().enumerate() {
            rig.store(AVAILABLE + 4 + 2 * i as u64, 2, head);
        }
        rig.store(AVAILABLE + 2, 2, count);
        rig.store(MEMORY + 0x3000 + 4 * queue, 2, queue);
        prop_assert!(rig.needs_reset() || rig.load(USED + 2, 2) <= count);
        let (frames, _) = rig.wire().take();
        prop_assert!(frames.iter().all(|frame| (14..=14 + 65535).contains(&frame.len())));
    }

    /// Nor does any access to the registers stop the device from working after a reset.
    #[test]
    fn any_register_may_be_written(
        writes in proptest::collection::vec((0u64..0x4000, 0u32..4, any::<u64>()), 0..64),
    ) {
        let rig = Rig::new();
        rig.start();
        for (offset, size, value) in writes {
            rig.store(MEMORY + offset % 0x40, 1 << size, value);
            rig.store(MEMORY + offset, 1 << size, value);
            rig.load(MEMORY + offset, 1 << size);
        }
        rig.store(MEMORY + 20, 1, 0);
        rig.store(AVAILABLE, 8, 0);
        rig.store(MEMORY + 22, 2, 0);
        rig.start();
        prop_assert_eq!(rig.request(1, 0, 1, 512), 0);
    }
}
