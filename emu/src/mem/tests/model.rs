//! Random sequences of changes against a model: an array of pages.

use super::*;
use proptest::prelude::*;

/// Pages of the area that the sequences work in. It is all that searches may use.
const PAGES: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Page {
    prot: Prot,
    /// The quadwords at its start and at its end.
    values: [u64; 2],
}

#[derive(Clone, Debug)]
enum Step {
    Map { page: u64, n: u64, prot: Prot, replace: bool },
    MapAnywhere { hint: Option<u64>, n: u64, prot: Prot },
    Unmap { page: u64, n: u64 },
    Protect { page: u64, n: u64, prot: Prot },
    Discard { page: u64, n: u64 },
    Remap { page: u64, n: u64, new_n: u64, to: Option<u64>, stay: bool },
    Store { page: u64, end: bool, value: u64 },
}

fn prot() -> impl Strategy<Value = Prot> {
    (0..8_u8).prop_map(Prot::from_bits_truncate)
}

fn step() -> impl Strategy<Value = Step> {
    let (page, n) = (0..PAGES, 1..5_u64);
    prop_oneof![
        4 => (page.clone(), n.clone(), prot(), any::<bool>())
            .prop_map(|(page, n, prot, replace)| Step::Map { page, n, prot, replace }),
        2 => (proptest::option::of(page.clone()), n.clone(), prot())
            .prop_map(|(hint, n, prot)| Step::MapAnywhere { hint, n, prot }),
        2 => (page.clone(), n.clone()).prop_map(|(page, n)| Step::Unmap { page, n }),
        3 => (page.clone(), n.clone(), prot())
            .prop_map(|(page, n, prot)| Step::Protect { page, n, prot }),
        1 => (page.clone(), n.clone()).prop_map(|(page, n)| Step::Discard { page, n }),
        4 => (page.clone(), 1..4_u64, n, proptest::option::of(page.clone()), any::<bool>())
            .prop_map(|(page, n, new_n, to, stay)| Step::Remap { page, n, new_n, to, stay }),
        6 => (page, any::<bool>(), 1..u64::MAX)
            .prop_map(|(page, end, value)| Step::Store { page, end, value }),
    ]
}

struct Model {
    pages: [Option<Page>; PAGES as usize],
    /// Whether executable memory changed in the last step.
    code_changed: bool,
}

impl Model {
    fn get(&self, page: u64) -> Option<Page> {
        self.pages.get(page as usize).copied().flatten()
    }

    fn set(&mut self, page: u64, new: Option<Page>) {
        if let Some(slot) = self.pages.get_mut(page as usize) {
            let exec = |p: &Option<Page>| p.is_some_and(|p| p.prot.contains(Prot::EXEC));
            self.code_changed |= exec(slot) || exec(&new);
            *slot = new;
        }
    }

    fn fill(&mut self, page: u64, n: u64, prot: Prot) {
        for at in page..page + n {
            self.set(at, Some(Page { prot, values: [0; 2] }));
        }
    }

    fn free(&self, page: u64, n: u64) -> bool {
        page + n <= PAGES && (page..page + n).all(|at| self.get(at).is_none())
    }

    fn search(&self, hint: u64, n: u64) -> Option<u64> {
        (hint..PAGES).chain(0..PAGES).find(|&at| self.free(at, n))
    }

    /// What the step does, and what it returns (a page where it is an address).
    fn apply(&mut self, step: &Step) -> Result<u64, MapError> {
        match *step {
            Step::Map { page, n, prot, replace } => {
                if page + n > PAGES {
                    return Err(MapError::NoMemory);
                }
                if !replace && !self.free(page, n) {
                    return Err(MapError::Exists);
                }
                self.fill(page, n, prot);
                Ok(page)
            }
            Step::MapAnywhere { hint, n, prot } => {
                let page = self.search(hint.unwrap_or(0), n).ok_or(MapError::NoMemory)?;
                self.fill(page, n, prot);
                Ok(page)
            }
            Step::Unmap { page, n } => {
                (page..page + n).for_each(|at| self.set(at, None));
                Ok(0)
            }
            Step::Protect { page, n, prot } => {
                for at in page..page + n {
                    let old = self.get(at).ok_or(MapError::Hole)?;
                    self.set(at, Some(Page { prot, ..old }));
                }
                Ok(0)
            }
            Step::Discard { page, n } => {
                let mut all = true;
                for at in page..page + n {
                    match self.get(at) {
                        Some(old) => self.set(at, Some(Page { values: [0; 2], ..old })),
                        None => all = false,
                    }
                }
                if all { Ok(0) } else { Err(MapError::Hole) }
            }
            Step::Remap { page, n, new_n, to, stay } => self.remap(page, n, new_n, to, stay),
            Step::Store { .. } => Ok(0),
        }
    }

    fn remap(
        &mut self,
        page: u64,
        n: u64,
        new_n: u64,
        to: Option<u64>,
        stay: bool,
    ) -> Result<u64, MapError> {
        if let Some(to) = to {
            let overlap = to < page + n && page < to + new_n;
            if to + new_n > PAGES || overlap {
                return Err(MapError::Invalid);
            }
        }
        let first = self.get(page).ok_or(MapError::NotOneMapping)?;
        if !(page..page + n).all(|at| self.get(at).is_some_and(|p| p.prot == first.prot)) {
            return Err(MapError::NotOneMapping);
        }
        (page + new_n.min(n)..page + n).for_each(|at| self.set(at, None));
        let in_place = self.free(page + n, new_n.saturating_sub(n));
        let to = match to {
            Some(to) => to,
            None if new_n <= n => return Ok(page),
            None if in_place => {
                self.fill(page + n, new_n - n, first.prot);
                return Ok(page);
            }
            None if stay => return Err(MapError::NoMemory),
            None => self.search(0, new_n).ok_or(MapError::NoMemory)?,
        };
        self.fill(to, new_n, first.prot);
        for at in 0..n.min(new_n) {
            let moved = self.get(page + at);
            self.set(to + at, moved);
            self.set(page + at, None);
        }
        Ok(to)
    }
}

/// Does the step in the real window.
fn perform(mem: &AddressSpace, at: impl Fn(u64) -> u64, step: &Step) -> Result<u64, MapError> {
    match *step {
        Step::Map { page, n, prot, replace } => {
            let place =
                if replace { Place::Fixed(at(page)) } else { Place::FixedNoReplace(at(page)) };
            mem.map(&MapRequest::anonymous(n * PAGE_SIZE, prot).at(place))
        }
        Step::MapAnywhere { hint, n, prot } => {
            let hint = hint.map_or(0, |page| at(page) - 5);
            mem.map(&MapRequest::anonymous(n * PAGE_SIZE - 1, prot).at(Place::Anywhere(hint)))
        }
        Step::Unmap { page, n } => mem.unmap(at(page), n * PAGE_SIZE).map(|()| at(0)),
        Step::Protect { page, n, prot } => {
            mem.protect(at(page), n * PAGE_SIZE - 7, prot).map(|()| at(0))
        }
        Step::Discard { page, n } => {
            mem.advise(at(page), n * PAGE_SIZE, Advice::DontNeed).map(|()| at(0))
        }
        Step::Remap { page, n, new_n, to, stay } => {
            let place = match to {
                Some(to) => RemapPlace::Fixed(at(to)),
                None if stay => RemapPlace::InPlace,
                None => RemapPlace::MayMove,
            };
            mem.remap(at(page), n * PAGE_SIZE, new_n * PAGE_SIZE, place)
        }
        Step::Store { .. } => Ok(at(0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_sequence_of_changes_agrees_with_an_array_of_pages(
        steps in proptest::collection::vec(step(), 1..40)
    ) {
        let mem = AddressSpace::based().unwrap();
        let low = mem.lowest_address();
        let at = |page: u64| low + page * PAGE_SIZE;
        mem.set_search(low, at(PAGES));
        let mut model = Model { pages: [None; PAGES as usize], code_changed: false };
        for step in &steps {
            let epoch = mem.exec_epoch();
            model.code_changed = false;
            if let Step::Store { page, end, value } = *step {
                let va = at(page) + if end { PAGE_SIZE - 8 } else { 0 };
                if mem.store_u64(va, value).is_ok() {
                    prop_assert!(model.get(page).is_some_and(|p| p.prot.allows(Access::Store)));
                    if let Some(page) = &mut model.pages[page as usize] {
                        page.values[usize::from(end)] = value;
                    }
                }
            }
            let expected = model.apply(step).map(at);
            prop_assert_eq!(perform(&mem, at, step), expected, "{:?}", step);
            if model.code_changed {
                prop_assert_ne!(mem.exec_epoch(), epoch, "{:?}", step);
            }
            mem.window.lock().regions.check();
            for page in 0..PAGES {
                let (va, state) = (at(page), model.get(page));
                let expect = |va, access| match state {
                    None => Err(MemFault { va, access, why: FaultKind::Unmapped }),
                    Some(p) if p.prot.allows(access) => Ok(()),
                    Some(_) => Err(MemFault { va, access, why: FaultKind::Protected }),
                };
                for (va, i) in [(va, 0), (va + PAGE_SIZE - 8, 1)] {
                    let expected = expect(va, Access::Load).and(Ok(state.map_or(0, |p| p.values[i])));
                    prop_assert_eq!(mem.load_u64(va), expected, "{:?}", step);
                    let value = state.map_or(0, |p| p.values[i]);
                    prop_assert_eq!(mem.store_u64(va, value), expect(va, Access::Store));
                    prop_assert_eq!(mem.fetch_u32(va), expect(va, Access::Fetch).and(Ok(value as u32)));
                }
                prop_assert_eq!(mem.executable_page(va), expect(va, Access::Fetch).is_ok());
                prop_assert_eq!(mem.region_at(va).map(|r| r.prot), state.map(|p| p.prot));
                prop_assert_eq!(mem.check(va, PAGE_SIZE, Access::Load), expect(va, Access::Load));
            }
        }
    }
}
