// Rust's locks and threads, as std has them: inline atomics and futexes. The first argument says which.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::thread;

// Between two locks: an operation, so that others may go first.
fn pause() {
    thread::yield_now();
}

fn counts() {
    let total = Arc::new(Mutex::new(0));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let total = Arc::clone(&total);
            thread::spawn(move || {
                let mut held = total.lock().unwrap();
                let before = *held;
                pause();
                *held = before + 1;
            })
        })
        .collect();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(*total.lock().unwrap(), 2);
}

fn two_locks(are_crossed: bool, pause: fn()) {
    let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let (first, second) = (Arc::clone(&a), Arc::clone(&b));
    let other = thread::spawn(move || {
        let _one = first.lock().unwrap();
        pause();
        let _two = second.lock().unwrap();
    });
    let (first, second) = if are_crossed { (b, a) } else { (a, b) };
    {
        let _one = first.lock().unwrap();
        pause();
        let _two = second.lock().unwrap();
    }
    other.join().unwrap();
}

fn condition(looks_first: bool) {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let of_other = Arc::clone(&shared);
    let other = thread::spawn(move || {
        *of_other.0.lock().unwrap() = true;
        of_other.1.notify_one();
    });
    pause();
    let mut is_ready = shared.0.lock().unwrap();
    if looks_first {
        while !*is_ready {
            is_ready = shared.1.wait(is_ready).unwrap();
        }
    } else {
        is_ready = shared.1.wait(is_ready).unwrap(); // it may have been told before
    }
    drop(is_ready);
    other.join().unwrap();
}

fn readers_and_a_writer() {
    let shared = Arc::new(RwLock::new((0, 0)));
    let of_writer = Arc::clone(&shared);
    let writer = thread::spawn(move || {
        let mut both = of_writer.write().unwrap();
        both.0 = 1;
        pause();
        both.1 = 1;
    });
    {
        let both = shared.read().unwrap();
        assert_eq!(both.0, both.1);
    }
    writer.join().unwrap();
}

fn channel() {
    let (sender, receiver) = mpsc::channel();
    let other = thread::spawn(move || {
        for i in 0..2 {
            sender.send(i).unwrap();
        }
    });
    assert_eq!(receiver.recv(), Ok(0));
    assert_eq!(receiver.recv(), Ok(1));
    assert!(receiver.recv().is_err()); // the sender is gone
    other.join().unwrap();
}

fn barrier() {
    let barrier = Arc::new(Barrier::new(2));
    let of_other = Arc::clone(&barrier);
    let other = thread::spawn(move || of_other.wait().is_leader());
    assert!(barrier.wait().is_leader() != other.join().unwrap());
}

fn once() {
    static ONCE: Once = Once::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = || {
        ONCE.call_once(|| {
            pause();
            RUNS.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(RUNS.load(Ordering::SeqCst), 1);
    };
    let other = thread::spawn(run);
    run();
    other.join().unwrap();
}

fn scope() {
    let total = Mutex::new(0);
    thread::scope(|s| {
        s.spawn(|| *total.lock().unwrap() += 1);
        s.spawn(|| *total.lock().unwrap() += 2);
    });
    assert_eq!(total.into_inner().unwrap(), 3);
}

// Threads meet, and have to wait for each other.
fn meet() {
    let (sender, receiver) = mpsc::channel();
    let other = thread::spawn(move || sender.send(1).unwrap());
    assert_eq!(receiver.recv(), Ok(1));
    other.join().unwrap();
}

fn main() {
    let word = std::env::args().nth(1).unwrap();
    if word == "crossed-at-once" {
        return two_locks(true, || {});
    }
    meet();
    match word.as_str() {
        "counts" => counts(),
        "crossed" => two_locks(true, pause),
        "in-order" => two_locks(false, pause),
        "told-too-early" => condition(false),
        "condition" => condition(true),
        "rwlock" => readers_and_a_writer(),
        "channel" => channel(),
        "barrier" => barrier(),
        "once" => once(),
        "scope" => scope(),
        other => panic!("there is no {}", other),
    }
}
